"""What holds in every world with elastic jobs: growth, shrinking and rebalancing keep the promises too."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from tests.builders import Object
from tests.reference.quantities import Resources, pod_requests
from tests.test_properties import (
    carried_out,
    later,
    oversubscribed,
    planned,
    standing,
    tasks_of,
    without_promises,
    workloads,
)
from tests.worlds import World, elastic_worlds, shared_worlds

over_worlds = settings(max_examples=150)


@over_worlds
@given(elastic_worlds())
def test_who_grows_and_who_gives_never_oversubscribes_a_node(world: World) -> None:
    here, leaving = standing(world, tasks_of(world))
    before: Object = {"placements": [], "evictions": []}
    for cycles in range(1, 6):
        answer = planned(world, cycles)
        placed = later(before, answer, "placements")
        here |= {p["pod"]: (p["node"], requests_of(world, p)) for p in placed}
        assert oversubscribed(world, [*here.values(), *leaving]) == []
        for evicted in later(before, answer, "evictions"):
            del here[evicted["pod"]]
        leaving, before = [], answer


@over_worlds
@given(st.one_of(elastic_worlds(), shared_worlds()))
def test_a_fixed_point_is_reached_within_as_many_cycles_as_there_are_workloads(world: World) -> None:
    """And one more, in which pods that were terminating at the beginning go; the last one is idle."""
    leaving = any("deletionTimestamp" in one["metadata"] for one in world.objects if one["kind"] == "Pod")
    enough = len(workloads(world)) + leaving + 1
    answer = planned(world, enough)
    assert answer["stable"]
    assert planned(world, enough + 1) == answer


@over_worlds
@given(elastic_worlds(), st.data(), st.sampled_from([1, 3]))
def test_sizes_do_not_depend_on_the_order_of_the_input(
    world: World, data: st.DataObject, cycles: int
) -> None:
    shuffled = World(data.draw(st.permutations(world.objects)), world.config, world.now)
    assert planned(shuffled, cycles) == planned(world, cycles)


@over_worlds
@given(elastic_worlds())
def test_nobody_falls_below_its_minimum_by_shrinking(world: World) -> None:
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
def test_nobody_grows_beyond_its_maximum(world: World, cycles: int) -> None:
    answer = planned(world, cycles)
    grown = {p["job"] for p in answer["placements"]}
    for job in answer["jobs"]:
        assert job["job"] not in grown or job["target"] <= job["max"]


@over_worlds
@given(elastic_worlds())
def test_who_shrinks_gives_its_highest_instances(world: World) -> None:
    answer = planned(world, 1)
    shrunk = {e["job"] for e in answer["evictions"] if e["reason"] == "Shrunk"}
    for job in (job for job in answer["jobs"] if job["job"] in shrunk):
        for role in ("trainer", "pserver", "replica"):
            names = [f"{job['job'].split('/')[1]}/{name}" for name in job["allocation"]]
            stay = [number(pod) for pod in names if role_of(pod) == role]
            gone = [
                number(e["pod"])
                for e in answer["evictions"]
                if e["job"] == job["job"] and e["reason"] == "Shrunk" and role_of(e["pod"]) == role
            ]
            assert not gone or not stay or min(gone) > max(stay), job["job"]


@over_worlds
@given(shared_worlds())
def test_nobody_at_home_waits_while_a_guest_who_is_in_the_way_stays(world: World) -> None:
    fresh = World([without_promises(one) for one in world.objects], world.config, world.now)
    settled = World(carried_out(fresh, planned(fresh, 30)), world.config, world.now)
    answer = planned(settled, 1)
    if world.config.get("disablePreemption") or answer["placements"] or answer["evictions"]:
        return
    for job, guests in with_guests(settled, answer):
        assert not reference.fits_without(settled.objects, settled.config, settled.now, job, guests), job


def with_guests(world: World, answer: Object) -> Iterator[tuple[str, set[str]]]:
    """Each workload that may make room and waits for it, with the pods of guests in its home pool."""
    pools = {node: pool["pool"] for pool in answer["pools"] for node in pool["nodes"]}
    preempting = {pool["pool"] for pool in answer["pools"] if pool["preemption"]}
    patient = {job.key for job in workloads(world) if not job.may_preempt or job.placed or job.held}
    immune = {job.key for job in workloads(world) if not job.preemptible}
    for waiting in answer["jobs"]:
        if waiting["position"] and waiting["pool"] in preempting and waiting["job"] not in patient:
            yield (
                waiting["job"],
                {
                    f"{guest['job'].split('/')[1]}/{pod}"
                    for guest in answer["jobs"]
                    if guest["pool"] != waiting["pool"] and guest["job"] not in immune
                    for pod, node in guest["allocation"].items()
                    if pools[node] == waiting["pool"]
                },
            )


def instances(role: str, job: Object, answer: Object) -> int:
    """How many instances of a role a job has after the plan, leaving out what it was given in it."""
    fresh = {p["pod"].partition("/")[2] for p in answer["placements"] if p["job"] == job["job"]}
    names = [name for name in job["allocation"] if name not in fresh]
    return sum(role_of(f"x/{name}") == role for name in names)


def role_of(pod: str) -> str:
    name = pod.partition("/")[2]
    return next((role for role in ("trainer", "pserver", "master") if f"-{role}-" in name), "replica")


def number(pod: str) -> int:
    return int(pod.rpartition("-")[2])


def requests_of(world: World, placed: Object) -> Resources:
    """What a placed pod asks for, by the object that it belongs to."""
    known = tasks_of(world)
    if placed["pod"] in known:
        return known[placed["pod"]].requests
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
