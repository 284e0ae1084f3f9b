"""The promises of the design, each a function over what was seen: it tells of everything that breaks it.

They are checked after every commit of a simulated run (`PROMISES`), and some once more when everything has
come to rest (`IN_THE_END`). What may be seen between two writes, and what may not, is said with each.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tests.soak.sight import GANG_MIN, LONGEST_FAULT, Budget, Job, Key, Pod, Sight, Step

Promise = Callable[[Sight, Step], Iterator[str]]

TURN = 120.0
"""Seconds, without faults, within which a scheduler has had its turn."""
_OFTEN = 10
"""How often a pod may be made again within a turn."""
RECOVERY = 300.0
"""Seconds that a gang has to be whole again: `gangRecoverySeconds`."""


def no_node_is_given_more_than_it_has(sight: Sight, step: Step) -> Iterator[str]:
    """Pods hold their room from their binding until they have ended or are gone, also while they terminate.

    Pods that were given up with a lost node are gone, whatever that node still runs.
    """
    name = step.after.node if isinstance(step.after, Pod) else ""
    node = sight.nodes.get(name)
    if node is None:
        return
    has = node.has()
    for resource, used in sight.used[name].items():
        if used > has.get(resource, 0):
            yield f"node {name} has {has.get(resource, 0)} of {resource}, and its pods hold {used}: " + _held(
                sight, name
            )


def no_node_runs_more_than_it_has(sight: Sight, step: Step) -> Iterator[str]:
    """The same of what really runs, also on nodes that are cut off: nothing new starts there."""
    if not isinstance(step.after, Pod) or step.after.status.phase != "Running":
        return
    for name, uids in sight.running().items():
        node = sight.nodes.get(name)
        total: Counter[str] = Counter()
        for uid in uids:
            total.update(sight.known[uid].asks())
        has = node.has() if node else {}
        if node and any(amount > has.get(resource, 0) for resource, amount in total.items()):
            yield f"node {name} runs {[sight.known[uid].title for uid in uids]}, more than it has"


def a_gang_is_whole_or_absent(sight: Sight, step: Step) -> Iterator[str]:
    """Whoever of a gang has a node, the minimum has ended well, has a node or has room that is kept for it.

    A binding that leaves less than that breaks the promise at once: all room is written down before the first
    is bound. What others take away (a pod that fails, or is deleted, or lost) leaves the rest in their places
    for as long as a gang has to recover; then they must be whole again, or have been told to go. A
    binding that was held up by a fault, and comes when one of the gang has been taken away meanwhile, is no
    other case: once it is sent nobody can take it back.
    """
    gang = (step.after or step.before).gang if step.kind == "pods" else None
    if gang is not None:
        if not _is_half(sight, gang):
            sight.halved.pop(gang, None)
        elif gang not in sight.halved:
            sight.halved[gang] = sight.now()
            bound = step.after and step.after.node and not (step.before and step.before.node)
            if bound and not _may_be_late(sight, gang):
                yield f"{step.after.title} is bound, and its gang lacks room: {_members(sight, gang)}"
    for late, since in sight.halved.items():
        if sight.now() - max(since, sight.calm_since) > RECOVERY + 2 * TURN:
            yield f"gang {late} is neither whole nor gone since {since:.3f}: {_members(sight, late)}"
        break


def nothing_is_kept_for_a_gang_that_cannot_start(sight: Sight, step: Step) -> Iterator[str]:
    """No room is kept for pods of a gang of which too few were ever made."""
    pod = step.after
    if not isinstance(pod, Pod) or not pod.gang or not pod.waits or not pod.status.nominated_node_name:
        return
    there, least = len(sight.members[pod.gang]), _least([pod])
    if there < least:
        yield f"room is kept for {pod.title}, and only {there} of {least} pods of its gang were ever made"


def nobody_takes_room_that_is_kept(sight: Sight, step: Step) -> Iterator[str]:
    """Who is bound where room is kept for another leaves that other its room, or it gets another soon.

    A binding may have been under way when the room was nominated. But whoever then still waits when the
    scheduler had its turn was robbed; unless it could not have had its room either (`_can_have_it`).
    """
    if isinstance(step.after, Pod):
        for uid in _intruded(sight, step.before, step.after):
            sight.robbed.setdefault(uid, (sight.now(), step.after))
    for uid, (since, thief) in list(sight.robbed.items()):
        pod = sight.known[uid]
        if not pod.waits or uid in sight.gone or sight.rearranged > sight.promised[uid]:
            del sight.robbed[uid]
        elif sight.now() - max(since, sight.calm_since) > TURN:
            yield f"{pod.title} waits: its room on {thief.node} was given to {thief.title}"


def _intruded(sight: Sight, before: Pod | None, pod: Pod) -> Iterator[str]:
    """The uids of those for whom room was kept on the node that a pod is bound to, if there is none now."""
    name = pod.node
    if not name or (before and (before.node or before.status.nominated_node_name == name)):
        return
    kept, node = sight.kept[name], sight.nodes.get(name)
    total = Counter(sight.used[name])
    for one in kept.values():
        total.update(one.asks())
    if node and any(amount > node.has().get(resource, 0) for resource, amount in total.items()):
        yield from (one.metadata.uid for one in kept.values() if _can_have_it(sight, one, pod))


def _can_have_it(sight: Sight, owner: Pod, newcomer: Pod) -> bool:
    """Whether a pod can have the room that is kept for it; what a newcomer takes of it does not count.

    It cannot if nodes or pools are not what they were when it was written down, if too few of its gang are
    left, or if nobody makes room for one of them: who wrote it down was stopped before it sent others away.
    """
    gang = sight.gangs[owner.gang].values() if owner.gang else [owner]
    ours = [one for one in gang if not one.leaving and one.status.phase != "Failed"]
    if sight.rearranged > sight.promised[owner.metadata.uid] or len(ours) < _least(ours):
        return False
    places = {one.status.nominated_node_name for one in ours if one.waits} - {""}
    return all(_is_made(sight, name, newcomer) for name in places)


def _is_made(sight: Sight, name: str, newcomer: Pod) -> bool:
    """Whether those who stay on a node leave all the room that is kept there."""
    there = (one for one in sight.pods.values() if one.node == name and not one.ended)
    total = Counter[str]()
    for one in (*there, *sight.kept[name].values()):
        if not one.leaving and not one.told_to_go and one.key != newcomer.key:
            total.update(one.asks())
    node = sight.nodes.get(name)
    return node is not None and all(amount <= node.has().get(what, 0) for what, amount in total.items())


def nobody_disappears(sight: Sight, step: Step) -> Iterator[str]:
    """A pod that has not ended goes when a user or its Job wants it to, or after it was told why."""
    before, after = step.before, step.after
    if not isinstance(before, Pod) or before.ended or before.leaving or (after and not after.leaving):
        return
    if (
        not before.told_to_go
        and before.metadata.uid not in sight.deleted_by_users
        and _is_wanted(sight, before)
    ):
        yield f"{before.title} on {before.node or 'no node'} is deleted, and was never told why"


def no_task_runs_twice_at_once(sight: Sight, step: Step) -> Iterator[str]:
    """Of an index of a Job one pod runs, but for those that were given up with a node that was lost.

    Of a Job without indices no more run than it wants at once.
    """
    if not isinstance(step.after, Pod) or step.after.status.phase != "Running" or not step.after.job:
        return
    uids = [uid for some in sight.running().values() for uid in some if uid not in sight.gone]
    pods = [pod for uid in uids if (pod := sight.known[uid]).job == step.after.job]
    names = sorted(pod.metadata.name for pod in pods)
    if step.after.task and sum(pod.task == step.after.task for pod in pods) > 1:
        yield f"index {step.after.task[1]} of Job {step.after.job.name} runs more than once: {names}"
    job = sight.jobs.get(step.after.job.uid)
    if job and sum(not pod.leaving for pod in pods) > job.spec.parallelism:
        yield f"Job {job.metadata.name} wants {job.spec.parallelism} pods at once, and has {names}"


def what_is_finished_is_not_run_again(sight: Sight, step: Step) -> Iterator[str]:
    """An index that has succeeded gets no other pod that runs."""
    pod = step.after
    if not isinstance(pod, Pod) or pod.status.phase != "Running" or not pod.task:
        return
    by = sight.done.get(pod.task)
    if by not in (None, pod.metadata.uid):
        yield f"{pod.title} runs index {pod.task[1]}, which {sight.known[by or ''].title} has finished"


def jobs_count_what_happened(sight: Sight, step: Step) -> Iterator[str]:
    """A Job never takes back a success, nor a verdict, and counts no success that it did not have."""
    before, after = step.before, step.after
    if not isinstance(after, Job):
        return
    if before and after.status.succeeded < before.status.succeeded:
        yield f"Job {after.metadata.name} had {before.status.succeeded} successes: {after.status}"
    if before and before.end and before.end != after.end:
        yield f"Job {after.metadata.name} was {before.end}, and is {after.end or 'not ended'}"
    if before and after.status.succeeded == before.status.succeeded:
        return
    own = (pod for pod in sight.known.values() if pod.job and pod.job.uid == after.metadata.uid)
    done = sum(pod.status.phase == "Succeeded" for pod in own)
    if after.status.succeeded > done:
        yield f"Job {after.metadata.name} counts {after.status.succeeded} successes, and had {done}"


def nobody_is_made_over_and_over(sight: Sight, step: Step) -> Iterator[str]:
    """Pods are made again when they were taken, but not as fast as they can be."""
    pod = step.after
    if step.before is not None or not isinstance(pod, Pod) or not pod.job:
        return
    lately = sight.made[pod.job.uid]
    while lately[0] < sight.now() - TURN:
        lately.popleft()
    job = sight.jobs.get(pod.job.uid)
    if job and len(lately) > _OFTEN * job.spec.parallelism:
        yield f"{len(lately)} pods were made for Job {pod.job.name} in {TURN:.0f} s"


def budgets_add_up(_: Sight, step: Step) -> Iterator[str]:
    """A budget allows nobody to be taken of whom it needs all."""
    if isinstance(step.after, Budget):
        status = step.after.status
        spare = max(status.current_healthy - status.desired_healthy, 0)
        if not 0 <= status.disruptions_allowed <= spare:
            yield f"budget {step.after.metadata.name} allows {status.disruptions_allowed} of {spare} to spare"


def who_waits_says_why(sight: Sight, _: Step) -> Iterator[str]:
    """A pod without a node says why, once the scheduler had its turn."""
    for uid, since in sight.mute.items():
        if sight.now() - max(since, sight.calm_since) > TURN:
            yield f"{sight.known[uid].title} waits since {since:.3f}, and does not say why"
        break


PROMISES: tuple[Promise, ...] = (
    no_node_is_given_more_than_it_has,
    no_node_runs_more_than_it_has,
    a_gang_is_whole_or_absent,
    nothing_is_kept_for_a_gang_that_cannot_start,
    nobody_takes_room_that_is_kept,
    nobody_disappears,
    no_task_runs_twice_at_once,
    what_is_finished_is_not_run_again,
    jobs_count_what_happened,
    nobody_is_made_over_and_over,
    budgets_add_up,
    who_waits_says_why,
)


# --- when everything has come to rest -----------------------------------------------------------------------


def all_that_can_finish_has_finished(sight: Sight) -> Iterator[str]:
    """Every pod has ended that could; every Job has its verdict."""
    for pod in sight.pods.values():
        if not pod.ended and not _is_hopeless(sight, pod):
            yield f"{pod.title} has not ended: {pod.status.phase} on {pod.node or 'no node'}: {pod.reason!r}"
    for job in sight.jobs.values():
        if not job.end and "huge" not in job.metadata.name:
            yield f"Job {job.metadata.name} has not ended: {job.status}"


def jobs_have_what_they_say(sight: Sight) -> Iterator[str]:
    """A Job that is complete has as many successes as it wants."""
    for job in sight.jobs.values():
        wanted = job.spec.completions
        if job.end == "Complete" and wanted is not None and job.status.succeeded != wanted:
            yield f"Job {job.metadata.name} is complete with {job.status.succeeded} of {wanted}"


def nothing_is_kept_for_nobody(sight: Sight) -> Iterator[str]:
    """No pod that still waits holds room that nobody will give it."""
    for name, kept in sight.kept.items():
        for pod in kept.values():
            yield f"room on {name} is kept for {pod.title} for ever"


IN_THE_END: tuple[Callable[[Sight], Iterator[str]], ...] = (
    all_that_can_finish_has_finished,
    jobs_have_what_they_say,
    nothing_is_kept_for_nobody,
)


# --- what they have in common -------------------------------------------------------------------------------


def _may_be_late(sight: Sight, gang: Key) -> bool:
    """Whether a binding may have been under way, because of a fault, when one of its gang was taken away."""
    return not sight.calm(0) and sight.now() - sight.bereft.get(gang, -math.inf) < LONGEST_FAULT


def _is_half(sight: Sight, gang: Key) -> bool:
    """Whether some of a gang have nodes, and not enough have ended well, or have room."""
    pods = sight.gangs[gang].values()
    staying = [pod for pod in pods if pod.node and not pod.ended and not pod.leaving and not pod.told_to_go]
    if not staying:
        return False
    done = sum(pod.status.phase == "Succeeded" for pod in pods)
    kept = sum(pod.waits and bool(pod.status.nominated_node_name) for pod in pods)
    return done + kept + len(staying) < _least(pods)


def _least(pods: Iterable[Pod]) -> int:
    return max(int(pod.metadata.annotations.get(GANG_MIN, "1")) for pod in pods)


def _is_hopeless(sight: Sight, pod: Pod) -> bool:
    """Whether it fits nowhere, or too many of its gang are gone for it ever to start."""
    if "huge" in pod.metadata.name:
        return True
    pods = sight.gangs[pod.gang].values() if pod.gang else ()
    return not pod.node and 0 < sum(one.status.phase != "Failed" for one in pods) < _least(pods)


def _members(sight: Sight, gang: Key) -> str:
    return ", ".join(
        f"{pod.metadata.name} {pod.status.phase} on {pod.node or '-'} "
        f"(kept {pod.status.nominated_node_name or '-'}{', leaving' if pod.leaving else ''})"
        for pod in sight.gangs[gang].values()
    )


def _held(sight: Sight, node: str) -> str:
    there = (pod for pod in sight.pods.values() if pod.node == node and not pod.ended)
    return ", ".join(f"{pod.title}{' (terminating)' if pod.leaving else ''}" for pod in there)


def _is_wanted(sight: Sight, pod: Pod) -> bool:
    """Whether its Job, if it has one, still has a use for it."""
    if pod.job is None:
        return True
    job = sight.jobs.get(pod.job.uid)
    if not job or job.ending or job.spec.suspend or job.metadata.deletion_timestamp:
        return False
    family = [one for one in sight.pods.values() if one.job == pod.job]
    others = [one for one in family if not one.ended and not one.leaving]
    if pod.task:
        return pod.task not in sight.done and not any(one.task == pod.task for one in others)
    done = max(job.status.succeeded, sum(one.status.phase == "Succeeded" for one in family))
    return len(others) < min(job.spec.parallelism, (job.spec.completions or 1) - done)
