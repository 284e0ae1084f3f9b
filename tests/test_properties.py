"""What holds in every world, whatever the engine decides: the promises of the design, over random worlds."""

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from tests.builders import INDEX, Object, owner
from tests.reference.model import Task, Workload
from tests.reference.quantities import Resources, allocatable, pod_requests
from tests.support import plan
from tests.worlds import World, shared_worlds, worlds

MANY_CYCLES = 20
Stand = tuple[str, Resources]
"""A node, and what is taken of it."""

over_worlds = settings(max_examples=300)


@over_worlds
@given(worlds())
def test_no_node_is_oversubscribed_at_any_step(world: World) -> None:
    tasks = tasks_of(world)
    here, leaving = standing(world, tasks)
    before: Object = {"placements": [], "evictions": []}
    for cycles in range(1, 5):
        answer = planned(world, cycles)
        placed = later(before, answer, "placements")
        here |= {p["pod"]: (p["node"], tasks[p["pod"]].requests) for p in placed}
        assert oversubscribed(world, [*here.values(), *leaving]) == []
        leaving = []
        for evicted in later(before, answer, "evictions"):
            del here[evicted["pod"]]
        before = answer


@over_worlds
@given(worlds(), st.sampled_from([1, 2, 5]))
def test_gangs_are_whole_or_absent(world: World, cycles: int) -> None:
    answer = planned(world, cycles)
    placed = {p["job"] for p in answer["placements"]} - {e["job"] for e in answer["evictions"]}
    allocations = {job["job"]: job["allocation"] for job in answer["jobs"]}
    for job in workloads(world):
        if job.key in placed:
            assert is_whole(job, allocations[job.key]), job.key


@over_worlds
@given(worlds())
def test_planning_on_ends_and_then_changes_nothing(world: World) -> None:
    answer = planned(world, MANY_CYCLES)
    assert answer["stable"]
    assert answer["cycles"] < MANY_CYCLES
    assert planned(world, MANY_CYCLES + 1) == answer


@over_worlds
@given(worlds())
def test_a_stable_plan_carried_out_and_planned_again_changes_nothing(world: World) -> None:
    answer = planned(world, MANY_CYCLES)
    again = plan(carried_out(world, answer), config=world.config, now=world.now)
    assert again["placements"] == []
    assert again["evictions"] == []
    assert {job["job"]: job["allocation"] for job in again["jobs"]} == {
        job["job"]: job["allocation"] for job in answer["jobs"]
    }


@over_worlds
@given(worlds(), st.data(), st.sampled_from([1, 3]))
def test_the_order_of_the_input_does_not_matter(world: World, data: st.DataObject, cycles: int) -> None:
    shuffled = World(data.draw(st.permutations(world.objects)), world.config, world.now)
    assert planned(shuffled, cycles) == planned(world, cycles)


@over_worlds
@given(worlds(), st.sampled_from([1, 3]))
def test_every_workload_that_waits_says_why(world: World, cycles: int) -> None:
    answer = planned(world, cycles)
    assert len({job["job"] for job in answer["jobs"]}) == len(answer["jobs"])
    for job in answer["jobs"]:
        if job["state"] != "ScheduledSucceed":
            assert job["reasons"], job["job"]
        assert all(reason["code"] and reason["message"] for reason in job["reasons"])


@over_worlds
@given(worlds())
def test_positions_count_up_from_one_in_every_pool(world: World) -> None:
    answer = planned(world, 1)
    for pool in {job["pool"] for job in answer["jobs"]}:
        said = [job["position"] for job in answer["jobs"] if job["pool"] == pool and job["position"]]
        assert said == list(range(1, len(said) + 1))


# --- where pools share -------------------------------------------------------------------------------------


@over_worlds
@given(shared_worlds())
def test_victims_and_promises_keep_their_room_at_every_step(world: World) -> None:
    tasks = tasks_of(world)
    here, leaving = standing(world, tasks)
    before: Object = {"placements": [], "evictions": []}
    for cycles in range(1, 6):
        answer = planned(world, cycles)
        here |= {p["pod"]: (p["node"], tasks[p["pod"]].requests) for p in later(before, answer, "placements")}
        assert oversubscribed(world, [*here.values(), *leaving]) == []
        for evicted in later(before, answer, "evictions"):
            del here[evicted["pod"]]
        if answer["cycles"] == cycles:
            assert oversubscribed(world, [*here.values(), *promised(answer, tasks)]) == []
        leaving, before = [], answer


@over_worlds
@given(shared_worlds())
def test_victims_and_borrowers_are_whole_or_absent(world: World) -> None:
    answer = planned(world, 1)
    allocations = {job["job"]: job["allocation"] for job in answer["jobs"]}
    touched = {one["job"] for one in (*answer["placements"], *answer["evictions"])}
    for job in workloads(world):
        if job.key in touched and allocations[job.key]:
            assert is_whole(job, allocations[job.key]), job.key


@over_worlds
@given(shared_worlds())
def test_a_workload_is_placed_in_one_pool(world: World) -> None:
    pools: dict[str, set[str]] = {}
    for placed in planned(world, 1)["placements"]:
        pools.setdefault(placed["job"], set()).add(placed["pool"])
        assert placed["borrowed"] == (placed["pool"] != placed["home"])
    assert all(len(entered) == 1 for entered in pools.values())


@over_worlds
@given(shared_worlds())
def test_taking_back_and_forth_ends(world: World) -> None:
    enough = len(workloads(world)) + 5
    answer = planned(world, enough)
    assert answer["stable"]
    assert planned(world, enough + 1) == answer


@over_worlds
@given(shared_worlds(), st.data(), st.sampled_from([1, 3]))
def test_who_lends_and_who_goes_does_not_depend_on_the_order_of_the_input(
    world: World, data: st.DataObject, cycles: int
) -> None:
    shuffled = World(data.draw(st.permutations(world.objects)), world.config, world.now)
    assert planned(shuffled, cycles) == planned(world, cycles)


@over_worlds
@given(shared_worlds())
def test_no_victim_could_have_been_spared(world: World) -> None:
    fresh = World([without_promises(one) for one in world.objects], world.config, world.now)
    answer = planned(fresh, 1)
    victims = [one for one in answer["evictions"] if one["reason"] in {"Preempted", "Reclaimed"}]
    promised_to = {job["job"] for job in answer["jobs"] if job["nominated"]}
    if answer["placements"] or len(promised_to) != 1 or len(victims) != len(answer["evictions"]):
        return  # only where one workload alone decided is the room that it saw known
    for spared in {one["job"] for one in victims}:
        gone = {one["pod"] for one in victims if one["job"] != spared}
        for preemptor in promised_to:
            assert not reference.fits_without(fresh.objects, fresh.config, fresh.now, preemptor, gone), spared


@over_worlds
@given(shared_worlds(), st.sampled_from([1, 4]))
def test_a_pool_that_does_not_share_is_never_entered(world: World, cycles: int) -> None:
    specs = {one["metadata"]["name"]: one["spec"] for one in world.objects if one["kind"] == "Pool"}
    for placed in planned(world, cycles)["placements"]:
        if placed["pool"] != placed["home"]:
            assert not specs.get(placed["pool"], {}).get("disableSharing")


@over_worlds
@given(shared_worlds(), st.sampled_from([1, 4]))
def test_only_who_may_be_a_victim_is_one(world: World, cycles: int) -> None:
    tasks = tasks_of(world)
    immune = {job.key for job in workloads(world) if not job.preemptible}
    for evicted in planned(world, cycles)["evictions"]:
        assert evicted["pod"] in tasks, "a pod of another scheduler"
        assert evicted["reason"] == "GangLost" or evicted["job"] not in immune


@over_worlds
@given(shared_worlds(), st.sampled_from([1, 4]))
def test_without_preemption_nobody_goes(world: World, cycles: int) -> None:
    calm = World(world.objects, world.config | {"disablePreemption": True}, world.now)
    assert planned(calm, cycles)["evictions"] == []


def promised(answer: Object, tasks: dict[str, Task]) -> list[Stand]:
    """The room that is kept for nominated tasks."""
    return [
        (node, tasks[f"{job['job'].split('/')[1]}/{pod}"].requests)
        for job in answer["jobs"]
        for pod, node in job["nominated"].items()
    ]


def without_promises(one: Object) -> Object:
    copied = deepcopy(one)
    for key in ("nominations", "nominatedNodeName"):
        (copied.get("status") or {}).pop(key, None)
    return copied


# --- a world before the plan -------------------------------------------------------------------------------


def planned(world: World, cycles: int) -> Object:
    return plan(world.objects, config=world.config, cycles=cycles, now=world.now)


def workloads(world: World) -> list[Workload]:
    return reference.workloads(world.objects, world.config, world.now)


def tasks_of(world: World) -> dict[str, Task]:
    return {f"{task.namespace}/{task.name}": task for job in workloads(world) for task in job.tasks}


def identity(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def is_leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def pods_on_nodes(world: World) -> list[Object]:
    pods = [one for one in world.objects if one["kind"] == "Pod" and one["spec"].get("nodeName")]
    return [pod for pod in pods if pod["status"]["phase"] == "Running"]


def standing(world: World, tasks: dict[str, Task]) -> tuple[dict[str, Stand], list[Stand]]:
    """What takes room now: those that stay (also tasks that were only given a node), and those that leave."""
    stay = {name: (task.node, task.requests) for name, task in tasks.items() if task.node}
    leaving = []
    for pod in pods_on_nodes(world):
        stand = (pod["spec"]["nodeName"], pod_requests(pod["spec"]))
        if is_leaving(pod):
            leaving.append(stand)
        else:
            stay[identity(pod)] = stand
    return stay, leaving


def oversubscribed(world: World, stands: Iterable[Stand]) -> list[tuple[str, str]]:
    """Each (node, resource) of which more is taken than there is."""
    taken: Counter[tuple[str, str]] = Counter()
    amounts: dict[tuple[str, str], Fraction] = {}
    for node, requests in stands:
        taken[node, "pods"] += 1
        for name, amount in requests.items():
            amounts[node, name] = amounts.get((node, name), Fraction(0)) + amount
    has = {one["metadata"]["name"]: allocatable(one) for one in world.objects if one["kind"] == "Node"}
    full = [key for key, amount in amounts.items() if amount > has[key[0]].get(key[1], 0)]
    return full + [key for key, count in taken.items() if count > has[key[0]].get("pods", count)]


# --- what a plan did ---------------------------------------------------------------------------------------


def later(before: Object, after: Object, what: str) -> list[Object]:
    """What the longer of two plans decided beyond the shorter, of which it must be a continuation."""
    known: list[Object] = before[what]
    decided: list[Object] = after[what]
    assert decided[: len(known)] == known
    return decided[len(known) :]


def is_whole(job: Workload, allocation: dict[str, str]) -> bool:
    met = [task for task in job.tasks if task.done or task.name in allocation]
    fixed = all(task in met for task in job.tasks if task.fixed)
    return fixed and sum(not task.fixed for task in met) >= job.minimum


def carried_out(world: World, answer: Object) -> list[Object]:
    """The objects after the plan: who left is gone, and every pod of every workload is where it was sent."""
    where = {
        f"{job['job'].split('/')[1]}/{pod}": node
        for job in answer["jobs"]
        for pod, node in job["allocation"].items()
    }
    tasks = tasks_of(world)
    kept = [settled(one) for one in world.objects if one["kind"] != "Pod" or stays(one, tasks)]
    pods = [
        sent(world, job, task, where.get(f"{task.namespace}/{task.name}"))
        for job in workloads(world)
        for task in job.tasks
        if not task.done
    ]
    return kept + [pod for pod in pods if pod is not None]


def stays(pod: Object, tasks: dict[str, Task]) -> bool:
    """Whether the plan has no say over the pod: somebody else's, or finished."""
    if is_leaving(pod):
        return False
    return identity(pod) not in tasks or pod["status"]["phase"] == "Succeeded"


def settled(one: Object) -> Object:
    """The object without what the scheduler had written for a later cycle."""
    copied = deepcopy(one)
    for key in ("allocations", "nominations"):
        (copied.get("status") or {}).pop(key, None)
    return copied


def sent(world: World, job: Workload, task: Task, node: str | None) -> Object | None:
    """The pod of a task on its node; a pending one only where pods exist before they are placed."""
    if node is None and job.kind not in {"Pod", "Gang"}:
        return None
    found = [
        pod
        for pod in world.objects
        if pod["kind"] == "Pod" and identity(pod) == f"{task.namespace}/{task.name}"
    ]
    live = [pod for pod in found if not is_leaving(pod)]
    metadata: dict[str, Any] = deepcopy(live[0]["metadata"]) if live else made_by(world, job, task)
    spec = {"schedulerName": "shoal", **task.spec} | ({"nodeName": node} if node else {})
    status = {"phase": "Running" if node else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def made_by(world: World, job: Workload, task: Task) -> dict[str, Any]:
    """The metadata of a pod that its owner makes."""
    made: dict[str, Any] = {"name": task.name, "namespace": task.namespace, "labels": task.labels}
    made["creationTimestamp"] = job.created.isoformat()
    if job.kind != "Pod":
        return made | {"ownerReferences": [owner(job.kind, job.name)]}
    name, _, number = task.name.rpartition("-")
    template = next(
        one["spec"]["template"]
        for one in world.objects
        if one["kind"] == "Job" and one["metadata"]["name"] == name
    )
    notes = template["metadata"].get("annotations", {}) | {INDEX: number}
    return made | {"annotations": notes, "ownerReferences": [owner("Job", name)]}
