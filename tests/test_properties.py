"""Invariants of every plan, checked on random worlds."""

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from fractions import Fraction
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from tests.builders import INDEX, Object, owner
from tests.reference.model import Task, Workload
from tests.reference.quantities import Resources, allocatable, pod_requests
from tests.support import plan
from tests.worlds import World, puzzles, shared_worlds, worlds

MANY_CYCLES = 20
NodeUse = tuple[str, Resources]
"""A node, and the amounts that are used of it."""

over_worlds = settings(max_examples=300)


@over_worlds
@given(worlds())
def test_no_node_is_oversubscribed_at_any_step(world: World) -> None:
    tasks = tasks_of(world)
    staying, terminating = pods_taking_room(world, tasks)
    before: Object = {"placements": [], "evictions": []}
    for cycles in range(1, 5):
        answer = planned(world, cycles)
        placed = decided_since(before, answer, "placements")
        staying |= {p["pod"]: (p["node"], tasks[p["pod"]].requests) for p in placed}
        assert oversubscribed(world, [*staying.values(), *terminating]) == []
        terminating = []
        for evicted in decided_since(before, answer, "evictions"):
            del staying[evicted["pod"]]
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
def test_repeated_planning_converges(world: World) -> None:
    answer = planned(world, MANY_CYCLES)
    assert answer["stable"]
    assert answer["cycles"] < MANY_CYCLES
    assert planned(world, MANY_CYCLES + 1) == answer


@over_worlds
@given(worlds())
def test_planning_after_a_stable_plan_was_applied_changes_nothing(world: World) -> None:
    answer = planned(world, MANY_CYCLES)
    again = plan(apply_plan(world, answer), config=world.config, now=world.now)
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
def test_every_waiting_workload_has_a_reason(world: World, cycles: int) -> None:
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
        positions = [job["position"] for job in answer["jobs"] if job["pool"] == pool and job["position"]]
        assert positions == list(range(1, len(positions) + 1))


@over_worlds
@given(puzzles())
def test_what_never_fits_has_no_arrangement_on_empty_nodes(world: World) -> None:
    has = [allocatable(one) for one in world.objects if one["kind"] == "Node"]
    jobs = {job.key: job for job in workloads(world)}
    for entry in planned(world, 1)["jobs"]:
        if entry["state"] == "ScheduledFailed":
            job = jobs[entry["job"]]
            fixed = [task.requests for task in job.tasks if task.fixed]
            for chosen in combinations([task.requests for task in job.varying], job.minimum):
                assert not can_be_arranged([*fixed, *chosen], has), entry["job"]


def can_be_arranged(requests: list[Resources], room: list[Resources]) -> bool:
    """Whether pods fit nodes in some arrangement; tries all of them."""
    if not requests:
        return True
    for number, node in enumerate(room):
        left = {name: amount - requests[0].get(name, 0) for name, amount in node.items()}
        if min(left.values()) >= 0 and can_be_arranged(
            requests[1:], [*room[:number], left, *room[number + 1 :]]
        ):
            return True
    return False


# --- worlds in which pools share ----------------------------------------------------------------------------


@over_worlds
@given(shared_worlds())
def test_victims_and_nominated_tasks_keep_their_room_at_every_step(world: World) -> None:
    tasks = tasks_of(world)
    staying, terminating = pods_taking_room(world, tasks)
    before: Object = {"placements": [], "evictions": []}
    for cycles in range(1, 6):
        answer = planned(world, cycles)
        staying |= {
            p["pod"]: (p["node"], tasks[p["pod"]].requests)
            for p in decided_since(before, answer, "placements")
        }
        assert oversubscribed(world, [*staying.values(), *terminating]) == []
        for evicted in decided_since(before, answer, "evictions"):
            del staying[evicted["pod"]]
        if answer["cycles"] == cycles:
            assert oversubscribed(world, [*staying.values(), *reserved_room(answer, tasks)]) == []
        terminating, before = [], answer


@over_worlds
@given(shared_worlds())
def test_victims_and_borrowers_are_whole_or_absent(world: World) -> None:
    answer = planned(world, 1)
    allocations = {job["job"]: job["allocation"] for job in answer["jobs"]}
    affected = {one["job"] for one in (*answer["placements"], *answer["evictions"])}
    for job in workloads(world):
        if job.key in affected and allocations[job.key]:
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
def test_reclaiming_and_borrowing_converge(world: World) -> None:
    most_cycles = len(workloads(world)) + 5
    answer = planned(world, most_cycles)
    assert answer["stable"]
    assert planned(world, most_cycles + 1) == answer


@over_worlds
@given(shared_worlds(), st.data(), st.sampled_from([1, 3]))
def test_lenders_and_victims_do_not_depend_on_the_order_of_the_input(
    world: World, data: st.DataObject, cycles: int
) -> None:
    shuffled = World(data.draw(st.permutations(world.objects)), world.config, world.now)
    assert planned(shuffled, cycles) == planned(world, cycles)


@over_worlds
@given(shared_worlds())
def test_no_victim_could_have_been_reprieved(world: World) -> None:
    fresh = World([without_nominations(one) for one in world.objects], world.config, world.now)
    answer = planned(fresh, 1)
    victims = [one for one in answer["evictions"] if one["reason"] in {"Preempted", "Reclaimed"}]
    nominated_jobs = {job["job"] for job in answer["jobs"] if job["nominated"]}
    if answer["placements"] or len(nominated_jobs) != 1 or len(victims) != len(answer["evictions"]):
        return  # the room that a workload saw is known only if it alone decided
    for spared in {one["job"] for one in victims}:
        evicted = {one["pod"] for one in victims if one["job"] != spared}
        for preemptor in nominated_jobs:
            assert not reference.fits_without(fresh.objects, fresh.config, fresh.now, preemptor, evicted), (
                spared
            )


@over_worlds
@given(shared_worlds())
def test_no_home_job_is_evicted_whole_to_spare_a_lower_class_or_a_borrower(world: World) -> None:
    objects = [without_nominations(one) for one in world.objects if one["kind"] != "PodDisruptionBudget"]
    fresh = World(objects, world.config, world.now)
    answer = planned(fresh, 1)
    preemptors = [job for job in answer["jobs"] if job["nominated"]]
    if answer["placements"] or len(preemptors) != 1 or len(preemptors[0]["nominated"]) == 1:
        return  # a single pod clears one node only
    pool_of_node = {node: entry["pool"] for entry in answer["pools"] for node in entry["nodes"]}
    home, evicted = preemptors[0]["pool"], {one["pod"] for one in answer["evictions"]}
    jobs = workloads(fresh)
    for victim in jobs:
        pods = {f"{task.namespace}/{task.name}" for task in victim.placed}
        if victim.pool != home or not pods or not pods <= evicted:
            continue
        later = [job for job in jobs if job.preemptible and is_put_back_later(job, victim)]
        there = {
            f"{task.namespace}/{task.name}"
            for job in later
            for task in job.placed
            if task.node and pool_of_node[task.node] == home
        }
        gone = (evicted | there) - pods
        assert not reference.fits_without(objects, fresh.config, fresh.now, preemptors[0]["job"], gone)


def is_put_back_later(job: Workload, victim: Workload) -> bool:
    """Whether a workload stands after a victim at home in the order of putting back."""
    return job.pool != victim.pool or job.priority < victim.priority


@over_worlds
@given(shared_worlds())
def test_borrowers_are_moved_only_by_reclaim(world: World) -> None:
    answer = planned(world, 1)
    pool_of_node = {node: entry["pool"] for entry in answer["pools"] for node in entry["nodes"]}
    allocations = {job["job"]: job["allocation"] for job in answer["jobs"]}
    evicted = {one["pod"]: one["reason"] for one in answer["evictions"]}
    for job in workloads(world):
        nodes = {f"{task.namespace}/{task.name}": task.node for task in job.placed if task.node}
        if not nodes or job.pool in {pool_of_node[node] for node in nodes.values()}:
            continue
        assert {evicted[pod] for pod in nodes.keys() & evicted} <= {"Reclaimed", "GangLost"}, job.key
        staying = {pod.partition("/")[2]: node for pod, node in nodes.items() if pod not in evicted}
        assert staying.items() <= allocations[job.key].items(), job.key


@over_worlds
@given(shared_worlds(), st.sampled_from([1, 4]))
def test_a_pool_that_does_not_share_is_never_borrowed_from(world: World, cycles: int) -> None:
    specs = {one["metadata"]["name"]: one["spec"] for one in world.objects if one["kind"] == "Pool"}
    for placed in planned(world, cycles)["placements"]:
        if placed["pool"] != placed["home"]:
            assert not specs.get(placed["pool"], {}).get("disableSharing")


@over_worlds
@given(shared_worlds(), st.sampled_from([1, 4]))
def test_only_evictable_workloads_are_victims(world: World, cycles: int) -> None:
    tasks = tasks_of(world)
    immune = {job.key for job in workloads(world) if not job.preemptible}
    for evicted in planned(world, cycles)["evictions"]:
        assert evicted["pod"] in tasks, "a pod of another scheduler"
        assert evicted["reason"] == "GangLost" or evicted["job"] not in immune


@over_worlds
@given(shared_worlds(), st.sampled_from([1, 4]))
def test_without_preemption_nothing_is_evicted(world: World, cycles: int) -> None:
    without_preemption = World(world.objects, world.config | {"disablePreemption": True}, world.now)
    assert planned(without_preemption, cycles)["evictions"] == []


def reserved_room(answer: Object, tasks: dict[str, Task]) -> list[NodeUse]:
    """The room that is reserved for nominated tasks."""
    return [
        (node, tasks[f"{job['job'].split('/')[1]}/{pod}"].requests)
        for job in answer["jobs"]
        for pod, node in job["nominated"].items()
    ]


def without_nominations(one: Object) -> Object:
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


def pod_key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def pods_on_nodes(world: World) -> list[Object]:
    pods = [one for one in world.objects if one["kind"] == "Pod" and one["spec"].get("nodeName")]
    return [pod for pod in pods if pod["status"]["phase"] == "Running"]


def pods_taking_room(world: World, tasks: dict[str, Task]) -> tuple[dict[str, NodeUse], list[NodeUse]]:
    """The pods that take room now: those that stay, and those that are terminating.

    Tasks that only have an assigned node are among those that stay, and so are terminating pods whose job
    keeps their room for their successors.
    """
    stay = {name: (task.node, task.requests) for name, task in tasks.items() if task.node}
    terminating = []
    for pod in pods_on_nodes(world):
        use = (pod["spec"]["nodeName"], pod_requests(pod["spec"]))
        if is_terminating(pod):
            if stay.get(pod_key(pod), ("", {}))[0] != use[0]:
                terminating.append(use)
        else:
            stay[pod_key(pod)] = use
    return stay, terminating


def oversubscribed(world: World, uses: Iterable[NodeUse]) -> list[tuple[str, str]]:
    """Each (node, resource) of which more is used than the node has."""
    taken: Counter[tuple[str, str]] = Counter()
    amounts: dict[tuple[str, str], Fraction] = {}
    for node, requests in uses:
        taken[node, "pods"] += 1
        for name, amount in requests.items():
            amounts[node, name] = amounts.get((node, name), Fraction(0)) + amount
    has = {one["metadata"]["name"]: allocatable(one) for one in world.objects if one["kind"] == "Node"}
    full = [key for key, amount in amounts.items() if amount > has[key[0]].get(key[1], 0)]
    return full + [key for key, count in taken.items() if count > has[key[0]].get("pods", count)]


# --- the effect of a plan -----------------------------------------------------------------------------------


def decided_since(before: Object, after: Object, what: str) -> list[Object]:
    """What the longer of two plans decided beyond the shorter, of which it must be a continuation."""
    earlier: list[Object] = before[what]
    decided: list[Object] = after[what]
    assert decided[: len(earlier)] == earlier
    return decided[len(earlier) :]


def is_whole(job: Workload, allocation: dict[str, str]) -> bool:
    met = [task for task in job.tasks if task.done or task.name in allocation]
    fixed = all(task in met for task in job.tasks if task.fixed)
    return fixed and sum(not task.fixed for task in met) >= job.minimum


def apply_plan(world: World, answer: Object) -> list[Object]:
    """The objects after the plan: evicted pods are gone, and every pod of a workload is on its node."""
    node_of_pod = {
        f"{job['job'].split('/')[1]}/{pod}": node
        for job in answer["jobs"]
        for pod, node in job["allocation"].items()
    }
    tasks = tasks_of(world)
    unaffected = [
        without_scheduler_status(one)
        for one in world.objects
        if one["kind"] != "Pod" or is_unaffected(one, tasks)
    ]
    pods = [
        placed_pod(world, job, task, node_of_pod.get(f"{task.namespace}/{task.name}"))
        for job in workloads(world)
        for task in job.tasks
        if not task.done
    ]
    return unaffected + [pod for pod in pods if pod is not None]


def is_unaffected(pod: Object, tasks: dict[str, Task]) -> bool:
    """Whether the plan does not affect the pod: it belongs to another scheduler, or is finished."""
    if is_terminating(pod):
        return False
    return pod_key(pod) not in tasks or pod["status"]["phase"] == "Succeeded"


def without_scheduler_status(one: Object) -> Object:
    """The object without what the scheduler had written for a later cycle."""
    copied = deepcopy(one)
    for key in ("allocations", "nominations"):
        (copied.get("status") or {}).pop(key, None)
    return copied


def placed_pod(world: World, job: Workload, task: Task, node: str | None) -> Object | None:
    """The pod of a task on its node; a pending one only for kinds whose pods exist before placement."""
    if node is None and job.kind not in {"Pod", "Gang"}:
        return None
    found = [
        pod
        for pod in world.objects
        if pod["kind"] == "Pod" and pod_key(pod) == f"{task.namespace}/{task.name}"
    ]
    live = [pod for pod in found if not is_terminating(pod)]
    metadata: dict[str, Any] = deepcopy(live[0]["metadata"]) if live else new_pod_metadata(world, job, task)
    spec = {"schedulerName": "shoal", **task.spec} | ({"nodeName": node} if node else {})
    status = {"phase": "Running" if node else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def new_pod_metadata(world: World, job: Workload, task: Task) -> dict[str, Any]:
    """The metadata of a pod that its owner creates."""
    metadata: dict[str, Any] = {"name": task.name, "namespace": task.namespace, "labels": task.labels}
    metadata["creationTimestamp"] = job.created.isoformat()
    if job.kind != "Pod":
        return metadata | {"ownerReferences": [owner(job.kind, job.name)]}
    name, _, number = task.name.rpartition("-")
    template = next(
        one["spec"]["template"]
        for one in world.objects
        if one["kind"] == "Job" and one["metadata"]["name"] == name
    )
    notes = template["metadata"].get("annotations", {}) | {INDEX: number}
    return metadata | {"annotations": notes, "ownerReferences": [owner("Job", name)]}
