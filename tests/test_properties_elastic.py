"""Invariants of every plan with elastic jobs: growing, shrinking and rebalancing."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from tests.builders import Object
from tests.reference.quantities import Resources, pod_requests
from tests.reference.victims import extra_instances
from tests.test_properties import (
    apply_plan,
    decided_since,
    oversubscribed,
    planned,
    pods_taking_room,
    tasks_of,
    without_nominations,
    workloads,
)
from tests.worlds import World, elastic_worlds, shared_worlds

over_worlds = settings(max_examples=150)


@over_worlds
@given(elastic_worlds())
def test_growing_and_giving_never_oversubscribes_a_node(world: World) -> None:
    staying, terminating = pods_taking_room(world, tasks_of(world))
    before: Object = {"placements": [], "evictions": []}
    for cycles in range(1, 6):
        answer = planned(world, cycles)
        placed = decided_since(before, answer, "placements")
        staying |= {p["pod"]: (p["node"], requests_of(world, p)) for p in placed}
        assert oversubscribed(world, [*staying.values(), *terminating]) == []
        for evicted in decided_since(before, answer, "evictions"):
            del staying[evicted["pod"]]
        terminating, before = [], answer


@over_worlds
@given(st.one_of(elastic_worlds(), shared_worlds()))
def test_planning_converges_within_one_cycle_per_workload(world: World) -> None:
    """One more cycle is for pods that were terminating at the start, and the last one is idle."""
    terminating = any("deletionTimestamp" in one["metadata"] for one in world.objects if one["kind"] == "Pod")
    most_cycles = len(workloads(world)) + terminating + 1
    answer = planned(world, most_cycles)
    assert answer["stable"]
    assert planned(world, most_cycles + 1) == answer


@over_worlds
@given(elastic_worlds(), st.data(), st.sampled_from([1, 3]))
def test_sizes_do_not_depend_on_the_order_of_the_input(
    world: World, data: st.DataObject, cycles: int
) -> None:
    shuffled = World(data.draw(st.permutations(world.objects)), world.config, world.now)
    assert planned(shuffled, cycles) == planned(world, cycles)


@over_worlds
@given(elastic_worlds())
def test_shrinking_never_goes_below_the_minimum(world: World) -> None:
    answer = planned(world, 1)
    left = {job["job"]: job for job in answer["jobs"]}
    shrunk = {e["job"] for e in answer["evictions"] if e["reason"] == "Shrunk"}
    taken = {e["job"] for e in answer["evictions"] if e["reason"] != "Shrunk"}
    for job in workloads(world):
        if job.key in shrunk - taken and job.minimum_met:
            done = sum(task.done for task in job.varying)
            assert done + instances(job.varying[0].role, left[job.key], answer) >= job.minimum


@over_worlds
@given(elastic_worlds(), st.sampled_from([1, 4]))
def test_growing_never_goes_beyond_the_maximum(world: World, cycles: int) -> None:
    answer = planned(world, cycles)
    grown = {p["job"] for p in answer["placements"]}
    for job in answer["jobs"]:
        assert job["job"] not in grown or job["target"] <= job["max"]


@over_worlds
@given(elastic_worlds())
def test_no_extra_instance_goes_while_a_higher_one_stays(world: World) -> None:
    answer = planned(world, 1)
    evicted = {e["pod"].partition("/")[2]: e["for"] for e in answer["evictions"]}
    for job in workloads(world):
        extras = extra_instances(job)
        if len({evicted[task.name] for task in job.placed if task.name in evicted}) == 1:
            leaving = [task.name in evicted for task in extras]
            assert leaving == sorted(leaving), job.key


@over_worlds
@given(elastic_worlds())
def test_shrinking_evicts_the_highest_instances(world: World) -> None:
    answer = planned(world, 1)
    shrunk = {e["job"] for e in answer["evictions"] if e["reason"] == "Shrunk"}
    for job in (job for job in answer["jobs"] if job["job"] in shrunk):
        for role in ("trainer", "pserver", "replica"):
            names = [f"{job['job'].split('/')[1]}/{name}" for name in job["allocation"]]
            kept = [number(pod) for pod in names if role_of(pod) == role]
            evicted = [
                number(e["pod"])
                for e in answer["evictions"]
                if e["job"] == job["job"] and e["reason"] == "Shrunk" and role_of(e["pod"]) == role
            ]
            assert not evicted or not kept or min(evicted) > max(kept), job["job"]


@over_worlds
@given(shared_worlds())
def test_no_home_workload_waits_for_room_of_an_evictable_borrower(world: World) -> None:
    without_reservations = World([without_nominations(one) for one in world.objects], world.config, world.now)
    settled = World(
        apply_plan(without_reservations, planned(without_reservations, 30)), world.config, world.now
    )
    answer = planned(settled, 1)
    if world.config.get("disablePreemption") or answer["placements"] or answer["evictions"]:
        return
    for job, borrowers in with_borrowers(settled, answer):
        assert not reference.fits_without(settled.objects, settled.config, settled.now, job, borrowers), job


def with_borrowers(world: World, answer: Object) -> Iterator[tuple[str, set[str]]]:
    """Each workload that may preempt and waits for room, with the borrowing pods in its home pool."""
    pools = {node: pool["pool"] for pool in answer["pools"] for node in pool["nodes"]}
    preempting = {pool["pool"] for pool in answer["pools"] if pool["preemption"]}
    not_preempting = {job.key for job in workloads(world) if not job.may_preempt or job.placed or job.held}
    not_evictable = {job.key for job in workloads(world) if not job.preemptible}
    for waiting in answer["jobs"]:
        if waiting["position"] and waiting["pool"] in preempting and waiting["job"] not in not_preempting:
            yield (
                waiting["job"],
                {
                    f"{borrower['job'].split('/')[1]}/{pod}"
                    for borrower in answer["jobs"]
                    if borrower["pool"] != waiting["pool"] and borrower["job"] not in not_evictable
                    for pod, node in borrower["allocation"].items()
                    if pools[node] == waiting["pool"]
                },
            )


def instances(role: str, job: Object, answer: Object) -> int:
    """The number of instances of a role after the plan, without those that the plan placed."""
    without_reservations = {
        p["pod"].partition("/")[2] for p in answer["placements"] if p["job"] == job["job"]
    }
    names = [name for name in job["allocation"] if name not in without_reservations]
    return sum(role_of(f"x/{name}") == role for name in names)


def role_of(pod: str) -> str:
    name = pod.partition("/")[2]
    return next((role for role in ("trainer", "pserver", "master") if f"-{role}-" in name), "replica")


def number(pod: str) -> int:
    return int(pod.rpartition("-")[2])


def requests_of(world: World, placed: Object) -> Resources:
    """The requests of a placed pod, by the object that it belongs to."""
    tasks = tasks_of(world)
    if placed["pod"] in tasks:
        return tasks[placed["pod"]].requests
    kind, namespace, name = placed["job"].split("/")
    job = next(
        one
        for one in world.objects
        if one["kind"] == kind
        and one["metadata"]["name"] == name
        and one["metadata"].get("namespace") == namespace
    )
    spec: dict[str, Any] = job["spec"]
    if kind == "DIJob":
        return pod_requests(spec["template"]["spec"])
    return pod_requests({"containers": [{"resources": spec[placed["role"]]["resources"]}]})
