"""The invariants of the design, each a function of the observed state that yields all violations.

They are checked after every commit of a simulated run (`INVARIANTS`), and some at its end, when everything is
idle (`FINAL_INVARIANTS`). Each documents which states between two writes are allowed.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tests.soak.observed_state import GANG_MIN, MAX_FAULT_EFFECT, Budget, Job, Key, ObservedState, Pod, Step

Invariant = Callable[[ObservedState, Step], Iterator[str]]

SCHEDULING_TIME = 120.0
"""Seconds, without faults, within which the scheduler has planned and written."""
_MAX_RECREATIONS = 10
"""How often a pod may be recreated within that time."""
GANG_RECOVERY = 300.0
"""Seconds within which a gang has to be whole again: `gangRecoverySeconds`."""


def bound_pods_fit_their_node(state: ObservedState, step: Step) -> Iterator[str]:
    """The pods of a node never request more than it has. Terminating pods count until they are deleted.

    Pods that were deleted because their node was lost do not count, although the node may still run them.
    """
    name = step.after.node if isinstance(step.after, Pod) else ""
    node = state.nodes.get(name)
    if node is None:
        return
    allocatable = node.allocatable()
    for resource, used in state.used[name].items():
        if used > allocatable.get(resource, 0):
            yield (
                f"node {name} has {allocatable.get(resource, 0)} of {resource}, and its pods hold {used}: "
                + _pods_on(state, name)
            )


def running_pods_fit_their_node(state: ObservedState, step: Step) -> Iterator[str]:
    """The pods that really run on a node never request more than it has, also on partitioned nodes."""
    if not isinstance(step.after, Pod) or step.after.status.phase != "Running":
        return
    for name, uids in state.running().items():
        node = state.nodes.get(name)
        total: Counter[str] = Counter()
        for uid in uids:
            total.update(state.known[uid].requests())
        allocatable = node.allocatable() if node else {}
        if node and any(amount > allocatable.get(resource, 0) for resource, amount in total.items()):
            yield f"node {name} runs {[state.known[uid].description for uid in uids]}, more than it has"


def gangs_are_whole_or_absent(state: ObservedState, step: Step) -> Iterator[str]:
    """If a pod of a gang has a node, the minimum has succeeded, has a node or is nominated for one.

    A binding that leaves less than that is a violation at once: all nominations are written before the first
    binding. If a pod fails, is deleted or lost, the rest stays for the time that a gang has to recover; then
    the gang must be whole again, or be evicted. The same holds for a binding that a fault delayed until a pod
    of the gang was lost: once it is sent it cannot be taken back.
    """
    gang = (step.after or step.before).gang if step.kind == "pods" else None
    if gang is not None:
        if not _is_partial(state, gang):
            state.partial_gangs.pop(gang, None)
        elif gang not in state.partial_gangs:
            state.partial_gangs[gang] = state.now()
            bound = step.after and step.after.node and not (step.before and step.before.node)
            if bound and not _may_be_delayed(state, gang):
                yield f"{step.after.description} is bound, and its gang is not: {_describe_gang(state, gang)}"
    for late, since in state.partial_gangs.items():
        if state.now() - max(since, state.faults_over_at) > GANG_RECOVERY + 2 * SCHEDULING_TIME:
            yield f"gang {late} is neither whole nor gone since {since:.3f}: {_describe_gang(state, late)}"
        break


def incomplete_gangs_have_no_nominations(state: ObservedState, step: Step) -> Iterator[str]:
    """No pod of a gang is nominated if fewer than the minimum were ever created."""
    pod = step.after
    if not isinstance(pod, Pod) or not pod.gang or not pod.pending or not pod.status.nominated_node_name:
        return
    there, least = len(state.members[pod.gang]), _gang_minimum([pod])
    if there < least:
        yield f"{pod.description} is nominated, but only {there} of {least} pods of its gang were created"


def nominated_room_is_not_taken(state: ObservedState, step: Step) -> Iterator[str]:
    """A binding does not take the room of a nominated pod, or that pod soon gets other room.

    A binding may have been sent before the nomination was written. But if the nominated pod is still pending
    after the scheduling time, its room was taken; unless it could not have used it (`_can_use_nomination`).
    """
    if isinstance(step.after, Pod):
        for uid in _displaced_by(state, step.before, step.after):
            state.displaced.setdefault(uid, (state.now(), step.after))
    for uid, (since, taker) in list(state.displaced.items()):
        pod = state.known[uid]
        if not pod.pending or uid in state.deleted or state.topology_changed_at > state.nominated_at[uid]:
            del state.displaced[uid]
        elif state.now() - max(since, state.faults_over_at) > SCHEDULING_TIME:
            yield f"{pod.description} is pending: its room on {taker.node} was given to {taker.description}"


def _displaced_by(state: ObservedState, before: Pod | None, pod: Pod) -> Iterator[str]:
    """Yield the uids of pods nominated for the node that a pod is bound to, if their room is gone now."""
    name = pod.node
    if not name or (before and (before.node or before.status.nominated_node_name == name)):
        return
    nominated, node = state.nominated[name], state.nodes.get(name)
    total = Counter(state.used[name])
    for one in nominated.values():
        total.update(one.requests())
    if node and any(amount > node.allocatable().get(resource, 0) for resource, amount in total.items()):
        yield from (one.metadata.uid for one in nominated.values() if _can_use_nomination(state, one, pod))


def _can_use_nomination(state: ObservedState, pod: Pod, newcomer: Pod) -> bool:
    """Whether a pod could use its nomination; what a newcomer takes of the room does not count.

    It could not if nodes or pools have changed since the nomination, if too few pods of its gang are left, or
    if the victims were not evicted: the scheduler crashed between the nomination and the evictions.
    """
    gang = state.gangs[pod.gang].values() if pod.gang else [pod]
    remaining = [one for one in gang if not one.terminating and one.status.phase != "Failed"]
    if state.topology_changed_at > state.nominated_at[pod.metadata.uid] or len(remaining) < _gang_minimum(
        remaining
    ):
        return False
    places = {one.status.nominated_node_name for one in remaining if one.pending} - {""}
    return all(_room_is_free(state, name, newcomer) for name in places)


def _room_is_free(state: ObservedState, name: str, newcomer: Pod) -> bool:
    """Whether the pods that stay on a node leave enough room for all pods nominated for it."""
    there = (one for one in state.pods.values() if one.node == name and not one.finished)
    total = Counter[str]()
    for one in (*there, *state.nominated[name].values()):
        if not one.terminating and not one.disrupted and one.key != newcomer.key:
            total.update(one.requests())
    node = state.nodes.get(name)
    return node is not None and all(
        amount <= node.allocatable().get(what, 0) for what, amount in total.items()
    )


def deletions_are_explained(state: ObservedState, step: Step) -> Iterator[str]:
    """An unfinished pod is deleted by a user, by its Job, or after its DisruptionTarget condition was set."""
    before, after = step.before, step.after
    if (
        not isinstance(before, Pod)
        or before.finished
        or before.terminating
        or (after and not after.terminating)
    ):
        return
    if (
        not before.disrupted
        and before.metadata.uid not in state.deleted_by_users
        and _is_needed(state, before)
    ):
        yield f"{before.description} on {before.node or 'no node'} is deleted without an explanation"


def no_task_runs_twice_at_once(state: ObservedState, step: Step) -> Iterator[str]:
    """Of an index of a Job at most one pod runs, apart from pods that were deleted with a lost node.

    Of a Job without indexes at most as many pods run as its parallelism.
    """
    if not isinstance(step.after, Pod) or step.after.status.phase != "Running" or not step.after.job:
        return
    uids = [uid for some in state.running().values() for uid in some if uid not in state.deleted]
    pods = [pod for uid in uids if (pod := state.known[uid]).job == step.after.job]
    names = sorted(pod.metadata.name for pod in pods)
    if step.after.task and sum(pod.task == step.after.task for pod in pods) > 1:
        yield f"index {step.after.task[1]} of Job {step.after.job.name} runs more than once: {names}"
    job = state.jobs.get(step.after.job.uid)
    if job and sum(not pod.terminating for pod in pods) > job.spec.parallelism:
        yield f"Job {job.metadata.name} has a parallelism of {job.spec.parallelism}, and runs {names}"


def no_slot_runs_twice_at_once(state: ObservedState, step: Step) -> Iterator[str]:
    """In a slot of a job at most one pod really runs, apart from pods that were deleted with a lost node."""
    pod = step.after
    if not isinstance(pod, Pod) or pod.status.phase != "Running" or not pod.slot:
        return
    running = (state.known[uid] for uids in state.running().values() for uid in uids)
    there = [one for one in running if one.slot == pod.slot and one.metadata.uid not in state.deleted]
    if len(there) > 1:
        yield f"slot {pod.slot[1]} runs more than once: {[one.description for one in there]}"


def finished_indexes_are_not_run_again(state: ObservedState, step: Step) -> Iterator[str]:
    """No pod runs of an index that has succeeded."""
    pod = step.after
    if not isinstance(pod, Pod) or pod.status.phase != "Running" or not pod.task:
        return
    by = state.succeeded_tasks.get(pod.task)
    if by not in (None, pod.metadata.uid):
        winner = state.known[by or ""]
        yield f"{pod.description} runs index {pod.task[1]}, which {winner.description} has finished"


def job_counters_are_right(state: ObservedState, step: Step) -> Iterator[str]:
    """The success counter of a Job neither decreases nor exceeds its successes; its final condition stays."""
    before, after = step.before, step.after
    if not isinstance(after, Job):
        return
    if before and after.status.succeeded < before.status.succeeded:
        yield f"Job {after.metadata.name} had {before.status.succeeded} successes: {after.status}"
    if before and before.end and before.end != after.end:
        yield f"Job {after.metadata.name} was {before.end}, and is {after.end or 'not finished'}"
    if before and after.status.succeeded == before.status.succeeded:
        return
    own = (pod for pod in state.known.values() if pod.job and pod.job.uid == after.metadata.uid)
    succeeded = sum(pod.status.phase == "Succeeded" for pod in own)
    if after.status.succeeded > succeeded:
        yield f"Job {after.metadata.name} counts {after.status.succeeded} successes, and had {succeeded}"


def pods_are_not_recreated_in_a_loop(state: ObservedState, step: Step) -> Iterator[str]:
    """Disrupted pods are recreated, but not in a busy loop."""
    pod = step.after
    if step.before is not None or not isinstance(pod, Pod) or not pod.job:
        return
    lately = state.created[pod.job.uid]
    while lately[0] < state.now() - SCHEDULING_TIME:
        lately.popleft()
    job = state.jobs.get(pod.job.uid)
    if job and len(lately) > _MAX_RECREATIONS * job.spec.parallelism:
        yield f"{len(lately)} pods were created for Job {pod.job.name} in {SCHEDULING_TIME:.0f} s"


def budgets_are_consistent(_: ObservedState, step: Step) -> Iterator[str]:
    """A budget allows no more disruptions than it has healthy pods to spare."""
    if isinstance(step.after, Budget):
        status = step.after.status
        spare = max(status.current_healthy - status.desired_healthy, 0)
        if not 0 <= status.disruptions_allowed <= spare:
            yield f"budget {step.after.metadata.name} allows {status.disruptions_allowed} of {spare} to spare"


def pending_pods_have_a_reason(state: ObservedState, _: Step) -> Iterator[str]:
    """A pending pod has a reason after the scheduling time."""
    for uid, since in state.without_reason.items():
        if state.now() - max(since, state.faults_over_at) > SCHEDULING_TIME:
            yield f"{state.known[uid].description} is pending since {since:.3f} without a reason"
        break


INVARIANTS: tuple[Invariant, ...] = (
    bound_pods_fit_their_node,
    running_pods_fit_their_node,
    gangs_are_whole_or_absent,
    incomplete_gangs_have_no_nominations,
    nominated_room_is_not_taken,
    deletions_are_explained,
    no_task_runs_twice_at_once,
    no_slot_runs_twice_at_once,
    finished_indexes_are_not_run_again,
    job_counters_are_right,
    pods_are_not_recreated_in_a_loop,
    budgets_are_consistent,
    pending_pods_have_a_reason,
)


# --- at the end of a run -----------------------------------------------------------------------------------


def all_pods_and_jobs_finish(state: ObservedState) -> Iterator[str]:
    """Every pod that could finish has finished, and so has every Job."""
    for pod in state.pods.values():
        if not pod.finished and not _can_never_start(state, pod):
            where = f"{pod.status.phase} on {pod.node or 'no node'}"
            yield f"{pod.description} is not finished: {where}: {pod.reason!r}"
    for job in state.jobs.values():
        if not job.end and "huge" not in job.metadata.name:
            yield f"Job {job.metadata.name} is not finished: {job.status}"


def complete_jobs_have_their_completions(state: ObservedState) -> Iterator[str]:
    """A complete Job has as many successes as it needs."""
    for job in state.jobs.values():
        wanted = job.spec.completions
        if job.end == "Complete" and wanted is not None and job.status.succeeded != wanted:
            yield f"Job {job.metadata.name} is complete with {job.status.succeeded} of {wanted}"


def no_nominations_are_left(state: ObservedState) -> Iterator[str]:
    """No pending pod is nominated any more."""
    for name, nominated in state.nominated.items():
        for pod in nominated.values():
            yield f"{pod.description} is still nominated for {name}"


FINAL_INVARIANTS: tuple[Callable[[ObservedState], Iterator[str]], ...] = (
    all_pods_and_jobs_finish,
    complete_jobs_have_their_completions,
    no_nominations_are_left,
)


# --- helpers -----------------------------------------------------------------------------------------------


def _may_be_delayed(state: ObservedState, gang: Key) -> bool:
    """Whether a fault may have delayed a binding until a pod of its gang was lost."""
    return (
        not state.without_faults_for(0)
        and state.now() - state.last_loss.get(gang, -math.inf) < MAX_FAULT_EFFECT
    )


def _is_partial(state: ObservedState, gang: Key) -> bool:
    """Whether some pods of a gang have nodes, and too few have succeeded, have a node or are nominated."""
    pods = state.gangs[gang].values()
    staying = [
        pod for pod in pods if pod.node and not pod.finished and not pod.terminating and not pod.disrupted
    ]
    if not staying:
        return False
    succeeded = sum(pod.status.phase == "Succeeded" for pod in pods)
    nominated = sum(pod.pending and bool(pod.status.nominated_node_name) for pod in pods)
    return succeeded + nominated + len(staying) < _gang_minimum(pods)


def _gang_minimum(pods: Iterable[Pod]) -> int:
    return max(int(pod.metadata.annotations.get(GANG_MIN, "1")) for pod in pods)


def _can_never_start(state: ObservedState, pod: Pod) -> bool:
    """Whether it fits on no node, or too many pods of its gang have failed for it to start."""
    if "huge" in pod.metadata.name:
        return True
    pods = state.gangs[pod.gang].values() if pod.gang else ()
    return not pod.node and 0 < sum(one.status.phase != "Failed" for one in pods) < _gang_minimum(pods)


def _describe_gang(state: ObservedState, gang: Key) -> str:
    return ", ".join(
        f"{pod.metadata.name} {pod.status.phase} on {pod.node or '-'} "
        f"(nominated {pod.status.nominated_node_name or '-'}{', terminating' if pod.terminating else ''})"
        for pod in state.gangs[gang].values()
    )


def _pods_on(state: ObservedState, node: str) -> str:
    there = (pod for pod in state.pods.values() if pod.node == node and not pod.finished)
    return ", ".join(f"{pod.description}{' (terminating)' if pod.terminating else ''}" for pod in there)


def _is_needed(state: ObservedState, pod: Pod) -> bool:
    """Whether its Job, if it has one, still needs it. Jobs of our kinds are resized at any time."""
    if pod.job is None:
        return pod.slot is None
    job = state.jobs.get(pod.job.uid)
    if not job or job.ending or job.spec.suspend or job.metadata.deletion_timestamp:
        return False
    siblings = [one for one in state.pods.values() if one.job == pod.job]
    others = [one for one in siblings if not one.finished and not one.terminating]
    if pod.task:
        return pod.task not in state.succeeded_tasks and not any(one.task == pod.task for one in others)
    succeeded = sum(one.status.phase == "Succeeded" for one in state.known.values() if one.job == pod.job)
    return len(others) < min(job.spec.parallelism, (job.spec.completions or 1) - succeeded)
