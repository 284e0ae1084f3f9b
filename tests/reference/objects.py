"""The input, sorted by kind, with the few questions that several kinds ask of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

POOL = "resource.aibee.cn/pool"
OURS = ("shoal", "ai-scheduler")


@dataclass(frozen=True)
class Input:
    """All objects of one world."""

    objects: list[Object]
    config: Object
    now: datetime

    def of_kind(self, kind: str) -> list[Object]:
        return [one for one in self.objects if one["kind"] == kind]

    @property
    def nodes(self) -> dict[str, Object]:
        return {one["metadata"]["name"]: one for one in self.of_kind("Node")}

    @property
    def pods(self) -> list[Object]:
        """The pods that are there: one on a node that is gone is gone as well."""
        nodes = self.nodes
        return [pod for pod in self.of_kind("Pod") if pod["spec"].get("nodeName") in {None, "", *nodes}]

    def is_ours(self, scheduler: str | None) -> bool:
        names = self.config.get("schedulerNames", OURS)
        return "*" in names or scheduler in names

    def created(self, one: Object) -> datetime:
        written = one["metadata"].get("creationTimestamp")
        return moment(written) if written else self.now

    def priority(self, names: Iterable[str | None]) -> int:
        """The value of the first class named, else of the global default, else 0."""
        wanted = self._priority_class(names)
        return int(wanted["value"]) if wanted else 0

    def makes_room(self, names: Iterable[str | None], specs: Iterable[Object]) -> bool:
        """Whether neither that class nor a pod of its own says that it never preempts."""
        sayings = [self._priority_class(names) or {}, *specs]
        return all(one.get("preemptionPolicy") != "Never" for one in sayings)

    def _priority_class(self, names: Iterable[str | None]) -> Object | None:
        classes = self.of_kind("PriorityClass")
        named = next((name for name in names if name), None)
        if named is not None:
            return next((one for one in classes if one["metadata"]["name"] == named), None)
        return next((one for one in classes if one.get("globalDefault")), None)

    def wished_pool(self, namespace: str, carriers: Iterable[Object]) -> str | None:
        """The first annotation among the carriers' (a job, its templates), else the namespace's."""
        spaces = [one for one in self.of_kind("Namespace") if one["metadata"]["name"] == namespace]
        notes = [annotations(one).get(POOL) for one in (*carriers, *spaces)]
        return next((note for note in notes if note), None)


def annotations(one: Object) -> dict[str, str]:
    return (one.get("metadata") or {}).get("annotations") or {}


def labels(one: Object) -> dict[str, str]:
    return (one.get("metadata") or {}).get("labels") or {}


def namespace(one: Object) -> str:
    return str(one["metadata"].get("namespace") or "default")


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminating(one: Object) -> bool:
    return bool(one["metadata"].get("deletionTimestamp"))


def is_finished(pod: Object) -> bool:
    return phase(pod) in {"Succeeded", "Failed"}


def owns(job: Object, pod: Object) -> bool:
    """Whether the pod belongs to the job."""
    return namespace(job) == namespace(pod) and any(
        _is(reference, job) for reference in pod["metadata"].get("ownerReferences") or ()
    )


def _is(reference: Object, job: Object) -> bool:
    same_name = reference["kind"] == job["kind"] and reference["name"] == job["metadata"]["name"]
    uids = {uid for uid in (reference.get("uid"), job["metadata"].get("uid")) if uid}
    return same_name and len(uids) <= 1 and reference.get("controller") is not False


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def newest(objects: list[Object]) -> datetime:
    """The newest timestamp anywhere in the input."""
    written = [text for one in objects for text in _timestamps(one)]
    return max(map(moment, written), default=datetime(1970, 1, 1, tzinfo=UTC))


def _timestamps(one: Object) -> list[str]:
    status = one.get("status") or {}
    found = [one["metadata"].get(key) for key in ("creationTimestamp", "deletionTimestamp")]
    found.append(status.get("brokenSince"))
    for condition in status.get("conditions") or ():
        found += [condition.get(key) for key in ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime")]
    return [str(text) for text in found if text]
