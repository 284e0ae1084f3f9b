"""The promises about jobs of all kinds, checked after every commit of a simulated run.

- A slot never has two pods that may run at once; one that succeeded does not run again.
- The end of a pod is counted once, and only when the pod has ended; its finalizer stays until then.
- TYJob: each failure counts once for its slot; a slot that failed more often than `restartLimit` gets no pod.
- TrainingJob: each failure counts once for its role.
- A finished job stays as it is. Exactly one phase is True. Counters never fall.
- DIJob: a rank has at most one pod in each generation; entry DI_RANK of DI_NODES is the pod itself.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.managed import ManagedPod
from shoal.apiserver.registry.records import Change
from shoal.cluster.resources import Object, resource_of
from shoal.controllers.jobs.ends import has_stopped, pod_end
from shoal.controllers.jobs.tracking import MAX_COUNTED, is_tracked

KINDS: Final = ("DIJob", "TYJob", "TrainingJob")
_BESIDE_PHASES: Final = ("Scheduled", "Suspended")
_PODS: Final = msgspec.json.Decoder(ManagedPod)


@dataclass
class _History:
    """What happened to one job."""

    job: Object = field(default_factory=dict)
    """In its last version; empty before it is known."""
    is_deleted: bool = False
    pods: dict[str, ManagedPod] = field(default_factory=dict)
    """Every pod that it ever had, in its last version, by uid."""
    present: set[str] = field(default_factory=set)
    """Uids of pods that are not deleted."""
    counted: set[str] = field(default_factory=set)
    succeeded: dict[str, str] = field(default_factory=dict)
    """The pod that succeeded, by slot."""
    generations: set[tuple[str, str]] = field(default_factory=set)
    """Rank and generation of every pod of a DIJob."""

    def forget(self, ranks: set[str]) -> None:
        """Forget ranks that were removed: if they come back they are new."""
        for rank in ranks:
            self.succeeded.pop(rank, None)
        self.generations = {one for one in self.generations if one[0] not in ranks}

    @property
    def status(self) -> Object:
        status: Object = self.job.get("status") or {}
        return status

    @property
    def is_active(self) -> bool:
        """Whether the job exists, is not being deleted and has not finished."""
        deleting = self.is_deleted or "deletionTimestamp" in self.job.get("metadata", {})
        return bool(self.job) and not deleting and _phase(self.status) not in FINISHED_PHASES


class JobPromises:
    """A commit observer that collects violations, in the order in which they happened."""

    def __init__(self, violations: list[str]) -> None:
        """Append violations to a list."""
        self.violations: Final = violations
        self._kinds: Final = {resource_of(kind).full_name: kind for kind in KINDS}
        self._histories: Final = defaultdict[str, _History](_History)
        """By the uid of the job."""

    def __call__(self, changes: Sequence[Change]) -> None:
        self.violations.extend(self.observe(changes))

    def observe(self, changes: Sequence[Change]) -> Iterator[str]:
        """Take the changes of a commit, and yield what they violate."""
        for change in changes:
            resource = change.record.key.resource
            if resource == "pods":
                yield from self._observe_pod(change)
            elif resource in self._kinds:
                yield from self._observe_job(change)

    def unfinished(self) -> Iterator[str]:
        """Yield the jobs that exist and have not finished."""
        for history in self._histories.values():
            if history.is_active:
                meta, status = history.job["metadata"], history.status
                yield f"{history.job['kind']} {meta['name']} is {_phase(status)}: {status}"

    # --- pods ---------------------------------------------------------------------------------------------

    def _observe_pod(self, change: Change) -> Iterator[str]:
        before = _PODS.decode(change.before.body) if change.before else None
        pod = _PODS.decode(change.record.body) if not change.record.deleted else before
        owner = pod.metadata.controller if pod else None
        if pod is None or owner is None or owner.kind not in KINDS:
            return
        history, uid = self._histories[owner.uid], pod.metadata.uid
        history.pods[uid] = pod
        (history.present.discard if change.record.deleted else history.present.add)(uid)
        slot = _slot(pod, owner.kind)
        if before is None and owner.kind == "DIJob":
            yield from _check_new_rank(history, pod, msgspec.json.decode(change.record.body))
        yield from _check_release(history, before, pod, deleted=change.record.deleted)
        if before is None and owner.kind == "TYJob":
            yield from _check_restart_limit(history, pod)
        if not change.record.deleted:
            yield from _check_slot(history, pod, slot, owner.kind)
            if pod.finished and pod_end(pod) == "succeeded":
                history.succeeded.setdefault(slot, uid)

    # --- jobs ---------------------------------------------------------------------------------------------

    def _observe_job(self, change: Change) -> Iterator[str]:
        body = (change.before or change.record).body if change.record.deleted else change.record.body
        after: Object = msgspec.json.decode(body)
        history = self._histories[after["metadata"]["uid"]]
        before, history.job = history.status, after
        history.is_deleted = change.record.deleted
        name, now = f"{after['kind']} {after['metadata']['name']}", history.status
        for problem in (
            *_check_phase(before, now),
            *_check_counted(history, before, now),
            *_check_counters(before, now),
        ):
            yield f"{name}: {problem}"
        history.forget(_ranks(before) - _ranks(now))


def _check_slot(history: _History, pod: ManagedPod, slot: str, kind: str) -> Iterator[str]:
    name, uid = pod.metadata.name, pod.metadata.uid
    may_run = [
        one
        for one in map(history.pods.__getitem__, history.present)
        if _slot(one, kind) == slot and not has_stopped(one)
    ]
    if len(may_run) > 1 and not has_stopped(pod):
        yield f"slot {slot} has {len(may_run)} pods: {sorted(one.metadata.name for one in may_run)}"
    first = history.succeeded.get(slot, uid)
    if first != uid and pod.status.phase == "Running" and not pod.terminating:
        yield f"{name} runs in slot {slot}, in which {history.pods[first].metadata.name} succeeded"


def _check_release(
    history: _History, before: ManagedPod | None, pod: ManagedPod, *, deleted: bool
) -> Iterator[str]:
    """A finalizer stays until the end is counted, unless the job is finished, being deleted or gone."""
    is_released = before is not None and is_tracked(before) and (deleted or not is_tracked(pod))
    if is_released and history.is_active and pod.metadata.uid not in history.counted:
        yield f"{pod.metadata.name} was released before its end was counted"


def _check_restart_limit(history: _History, pod: ManagedPod) -> Iterator[str]:
    """A slot that failed too often gets no pod any more."""
    spec, name = history.job["spec"], pod.metadata.name
    slot = name.removeprefix(f"{history.job['metadata']['name']}-")
    restarts = (history.status.get("restarts") or {}).get(slot, 0)
    if restarts > spec.get("restartLimit", 3):
        yield f"{name} is created after {restarts} failures: restartLimit is {spec.get('restartLimit', 3)}"


def _check_new_rank(history: _History, pod: ManagedPod, body: Object) -> Iterator[str]:
    notes, spec = pod.metadata.annotations, body["spec"]
    rank, generation = notes["diengine/rank"], notes["diengine/generation"]
    if (rank, generation) in history.generations:
        yield f"rank {rank} has a second pod in generation {generation}: {pod.metadata.name}"
    history.generations.add((rank, generation))
    env = {one["name"]: one.get("value", "") for one in spec["containers"][0]["env"]}
    entry = env["DI_NODES"].split(",")[int(env["DI_RANK"])]
    if env["DI_RANK"] != rank or not entry.startswith(f"{spec['hostname']}.{spec['subdomain']}."):
        yield f"DI_NODES of {pod.metadata.name} has {entry} as rank {env['DI_RANK']}"


def _check_phase(before: Object, after: Object) -> Iterator[str]:
    old, new = _phase(before), _phase(after)
    if old in FINISHED_PHASES and new != old:
        yield f"it was {old}, and is {new}"
    conditions = (one for one in after.get("conditions") or () if one["type"] not in _BESIDE_PHASES)
    true = [one["type"] for one in conditions if one["status"] == "True"]
    if new is not None and true != [new]:
        yield f"it is {new}, and these conditions are True: {true}"


def _check_counted(history: _History, before: Object, after: Object) -> Iterator[str]:
    old, new = before.get("counted") or (), after.get("counted") or ()
    added = [uid for uid in new if uid not in old]
    if len(new) > MAX_COUNTED:
        yield f"{len(new)} ends are recorded"
    for uid in added:
        pod = history.pods.get(uid)
        if uid in history.counted:
            yield f"the end of {pod.metadata.name if pod else uid} is counted twice"
        if pod is None or not has_stopped(pod):
            yield f"the end of {pod.metadata.name if pod else uid} is counted, and it has not ended"
    history.counted.update(added)
    failed = [uid for uid in added if uid in history.pods and pod_end(history.pods[uid]) == "failed"]
    cost = (after.get("failures") or 0) - (before.get("failures") or 0)
    if cost > min(len(failed), 1):
        yield f"{len(failed)} failures cost {cost}"
    yield from _check_failures(history, before, after, failed)


def _check_failures(history: _History, before: Object, after: Object, failed: Sequence[str]) -> Iterator[str]:
    """The failures that are counted now are added to the figures of their slots and roles, exactly."""
    kind, prefix = history.job["kind"], f"{history.job['metadata']['name']}-"
    pods = [history.pods[uid] for uid in failed]
    if kind == "TYJob":
        counts = Counter(pod.metadata.name.removeprefix(prefix) for pod in pods)
        old, new = before.get("restarts") or {}, after.get("restarts") or {}
    elif kind == "TrainingJob":
        counts = Counter(pod.metadata.labels["paddlepaddle.org/role"] for pod in pods)
        old, new = (
            {role: one.get("failed", 0) for role, one in _figures(s).items()} for s in (before, after)
        )
    else:
        return
    for name in {*counts, *old, *new}:
        first, last = old.get(name, 0), new.get(name, 0)
        if last - first != counts[name]:
            yield f"{counts[name]} failures of {name} change its count from {first} to {last}"


def _check_counters(before: Object, after: Object) -> Iterator[str]:
    old, new = dict(_counters(before)), dict(_counters(after))
    for name, value in old.items():
        if name in new and new[name] < value:
            yield f"{name} falls from {value} to {new[name]}"


def _counters(status: Object) -> Iterator[tuple[str, int]]:
    for name in ("generation", "failures"):
        if status.get(name) is not None:
            yield name, status[name]
    for worker in status.get("workers") or ():
        yield f"restarts of rank {worker['rank']}", worker.get("restarts", 0)
    restarts: Mapping[str, Any] = status.get("restarts") or {}
    yield from ((f"restarts of {slot}", number) for slot, number in restarts.items())
    for role, figures in _figures(status).items():
        yield from ((f"{name} {role}s", figures.get(name, 0)) for name in ("succeeded", "failed"))


def _figures(status: Object) -> Mapping[str, Any]:
    """Return the figures of a TrainingJob by role; those of other kinds are plain numbers."""
    replicas = status.get("replicas")
    return replicas if isinstance(replicas, dict) else {}


def _phase(status: Object) -> str | None:
    return status.get("phase") or status.get("stage")


def _ranks(status: Object) -> set[str]:
    return {str(worker["rank"]) for worker in status.get("workers") or ()}


def _slot(pod: ManagedPod, kind: str) -> str:
    return pod.metadata.labels["diengine/rank"] if kind == "DIJob" else pod.metadata.name
