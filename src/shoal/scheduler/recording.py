"""CycleRecorder: what a cycle saw and what it decided, in files that `shoal plan` reads.

Each cycle has a directory, named by its number; only the last few are kept:

    000042/world.json      the objects, as a List
    000042/scheduler.json  the configuration
    000042/plan.json       the plan, as `shoal plan -o json` prints it
    000042/command         how to plan it again; it prints the same, to the byte

The objects are those of the watch, with all assumed writes applied: a cycle sees both. Workloads that are in
back-off, or wait for a policy, are left out, as they were left out of the cycle; so are pods that batch Jobs
are still to create: their Jobs are recorded as suspended. A plan that used the answers of a user's policy is
reproduced if the policy answers the same again.
"""

import shlex
import shutil
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from shoal.cache.changes import Key
from shoal.cache.live import Texts
from shoal.cache.world import World
from shoal.cluster.patches.json_patch import apply_merge_patch, make_merge_patch
from shoal.cluster.resources import Object
from shoal.cluster.times import format_time
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import CycleResult, report
from shoal.engine.workload import Workload
from shoal.kinds.pod_classes import GANG
from shoal.kinds.pods import BROKEN_SINCE, PodRecord


def exact_time(now: float) -> float:
    """A time rounded to microseconds, so that its text is exact."""
    return datetime.fromtimestamp(now, UTC).timestamp()


class CycleRecorder:
    """Records the last cycles in a directory."""

    def __init__(self, directory: Path, world: World, texts: Texts, *, keep: int) -> None:
        """`texts` has the whole objects; a LiveWorld keeps it up to date."""
        self._directory, self._world, self._texts, self._keep = directory, world, texts, keep
        directory.mkdir(parents=True, exist_ok=True)
        self._number = max(_numbers(directory), default=0)

    def record(
        self, config: SchedulerConfig, step: Callable[[], CycleResult], absent: Collection[Workload]
    ) -> CycleResult:
        """Record what a cycle sees, run it, and record its plan."""
        self._number += 1
        place = self._directory / f"{self._number:06}"
        place.mkdir()
        objects = list(self._objects(absent))
        done = step()
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        (place / "world.json").write_bytes(msgspec.json.encode(listed))
        (place / "scheduler.json").write_bytes(msgspec.json.encode(config))
        answer = msgspec.json.format(msgspec.json.encode(report([done], config)), indent=2)
        (place / "plan.json").write_bytes(answer + b"\n")
        (place / "command").write_text(_command(place, done.snapshot.now))
        self._forget()
        return done

    def _objects(self, absent: Collection[Workload]) -> Iterator[Object]:
        """All objects as the cycle sees them."""
        left_out = {(w.kind, (w.namespace, w.name)) for w in absent if w.kind in self._world.jobs}
        left_out |= {("Pod", (w.namespace, task.name)) for w in absent for task in w.tasks}
        for (kind, key), text in sorted(self._texts.items()):
            if (kind, key) not in left_out:
                yield self._seen(kind, key, msgspec.json.decode(text))

    def _seen(self, kind: str, key: Key, obj: Object) -> Object:
        """An object with its assumed writes."""
        if kind == "Pod" and key in self._world.pods:
            obj = apply_merge_patch(obj, _pod_patch(obj, self._world.pods[key]))
        if kind in self._world.jobs and key in self._world.jobs[kind]:
            obj = apply_merge_patch(obj, {"status": _job_patch(obj, self._world.jobs[kind][key])})
        if kind == "Job" and GANG not in obj["spec"]["template"].get("metadata", {}).get("annotations", {}):
            obj = apply_merge_patch(obj, {"spec": {"suspend": True}})
        return obj

    def _forget(self) -> None:
        for number in sorted(_numbers(self._directory))[: -self._keep]:
            shutil.rmtree(self._directory / f"{number:06}")


def _pod_patch(obj: Object, pod: PodRecord) -> Object:
    """The patch that makes a pod equal to its record."""
    metadata: Object = {}
    if pod.leaving and not obj["metadata"].get("deletionTimestamp"):
        metadata["deletionTimestamp"] = format_time(pod.created)
    since = None if pod.broken_since is None else format_time(pod.broken_since)
    if since != obj["metadata"].get("annotations", {}).get(BROKEN_SINCE):
        metadata["annotations"] = {BROKEN_SINCE: since}
    return {
        "metadata": metadata,
        "spec": {"nodeName": pod.node or None},
        "status": {"nominatedNodeName": pod.nominated or None},
    }


def _job_patch(obj: Object, job: Any) -> Object:  # noqa: ANN401 - of any kind
    """The patch that makes the status of a job equal to its view."""
    before = msgspec.to_builtins(msgspec.convert(obj.get("status") or {}, type(job.status)))
    return make_merge_patch(before, msgspec.to_builtins(job.status))


def _numbers(directory: Path) -> list[int]:
    return [int(path.name) for path in directory.iterdir() if path.name.isdecimal()]


def _command(place: Path, now: float) -> str:
    time = datetime.fromtimestamp(now, UTC).isoformat()
    parts = ["shoal", "plan", "-f", f"{place}/world.json", "--config", f"{place}/scheduler.json"]
    return shlex.join([*parts, "--now", time, "-o", "json"]) + "\n"
