"""The input by kind, and queries that several kinds need."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Object = dict[str, Any]

POOL = "resource.aibee.cn/pool"
DEFAULT_SCHEDULERS = ("shoal", "ai-scheduler")


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
        """The pods that exist: a pod on a node that does not exist is ignored."""
        nodes = self.nodes
        return [pod for pod in self.of_kind("Pod") if pod["spec"].get("nodeName") in {None, "", *nodes}]

    def is_responsible(self, scheduler: str | None) -> bool:
        names = self.config.get("schedulerNames", DEFAULT_SCHEDULERS)
        return "*" in names or scheduler in names

    def created(self, one: Object) -> datetime:
        written = one["metadata"].get("creationTimestamp")
        return parse_time(written) if written else self.now

    def priority(self, names: Iterable[str | None]) -> int:
        """The value of the first class named, else of the global default, else 0."""
        wanted = self._priority_class(names)
        return int(wanted["value"]) if wanted else 0

    def may_preempt(self, names: Iterable[str | None], specs: Iterable[Object]) -> bool:
        """Whether neither the priority class nor a pod has `preemptionPolicy: Never`."""
        sources = [self._priority_class(names) or {}, *specs]
        return all(one.get("preemptionPolicy") != "Never" for one in sources)

    def _priority_class(self, names: Iterable[str | None]) -> Object | None:
        classes = self.of_kind("PriorityClass")
        named = next((name for name in names if name), None)
        if named is not None:
            return next((one for one in classes if one["metadata"]["name"] == named), None)
        return next((one for one in classes if one.get("globalDefault")), None)

    def requested_pool(self, namespace: str, carriers: Iterable[Object]) -> str | None:
        """The first pool annotation of the carriers (a job, its templates), else of the namespace."""
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


def is_live(pod: Object) -> bool:
    """Whether a pod has not ended, and is not terminating."""
    return not is_terminating(pod) and not is_finished(pod)


def has_succeeded(pod: Object) -> bool:
    """Whether a pod ended well, and was not asked to stop before its last container ended."""
    status = pod.get("status") or {}
    disrupted = [
        one
        for one in status.get("conditions") or ()
        if one["type"] == "DisruptionTarget" and one["status"] == "True"
    ]
    asked = [parse_time(one["lastTransitionTime"]) for one in disrupted if one.get("lastTransitionTime")]
    if is_terminating(pod):
        grace = timedelta(seconds=pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        asked.append(parse_time(pod["metadata"]["deletionTimestamp"]) - grace)
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    ends = [one["terminated"]["finishedAt"] for one in states if one.get("terminated")]
    ended = max(map(parse_time, ends)) if ends and len(ends) == len(states) else None
    if not asked:
        return phase(pod) == "Succeeded" and not disrupted
    return phase(pod) == "Succeeded" and ended is not None and ended < min(asked)


def owns(job: Object, pod: Object) -> bool:
    """Whether the job is the controller of the pod."""
    return namespace(job) == namespace(pod) and any(
        _is(reference, job) for reference in pod["metadata"].get("ownerReferences") or ()
    )


def _is(reference: Object, job: Object) -> bool:
    same_name = reference["kind"] == job["kind"] and reference["name"] == job["metadata"]["name"]
    uids = {uid for uid in (reference.get("uid"), job["metadata"].get("uid")) if uid}
    return same_name and len(uids) <= 1 and reference.get("controller") is not False


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def newest(objects: list[Object]) -> datetime:
    """The newest timestamp anywhere in the input."""
    written = [text for one in objects for text in _timestamps(one)]
    return max(map(parse_time, written), default=datetime(1970, 1, 1, tzinfo=UTC))


def _timestamps(one: Object) -> list[str]:
    status = one.get("status") or {}
    found = [one["metadata"].get(key) for key in ("creationTimestamp", "deletionTimestamp")]
    found.append(status.get("brokenSince"))
    for condition in status.get("conditions") or ():
        found += [condition.get(key) for key in ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime")]
    return [str(text) for text in found if text]
