"""Recording: what a cycle saw and what it decided, in files that `shoal plan` reads.

Each cycle has a directory of its own, named by its number; of those there are only the last few:

    000042/world.json      the objects, as a List
    000042/scheduler.json  the configuration
    000042/plan.json       the plan, as `shoal plan -o json` prints it
    000042/command         how to plan it again; it prints the same, to the byte

The objects are those the watch told of, with all that was decided and is not told of yet: a cycle sees
both. Who rests after a refusal, or waits for a policy, is left out, as it was left out of the cycle; so are
pods that batch Jobs are still to make: their Jobs are shown as suspended. A plan that followed the advice
of a user's policy is the same again if the policy answers the same again.
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


def exact_moment(now: float) -> float:
    """A time that a text of microseconds can tell exactly."""
    return datetime.fromtimestamp(now, UTC).timestamp()


class Recorder:
    """Keeps the last cycles in a directory."""

    def __init__(self, directory: Path, world: World, texts: Texts, *, keep: int) -> None:
        """`texts` are the objects as they were told, which a LiveWorld keeps up to date."""
        self._directory, self._world, self._texts, self._keep = directory, world, texts, keep
        directory.mkdir(parents=True, exist_ok=True)
        self._number = max(_numbers(directory), default=0)

    def record(
        self, config: SchedulerConfig, step: Callable[[], CycleResult], absent: Collection[Workload]
    ) -> CycleResult:
        """Write down what a cycle sees, run it, and write down what it decides."""
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
        """Everything, as a cycle sees it."""
        left_out = {(w.kind, (w.namespace, w.name)) for w in absent if w.kind in self._world.jobs}
        left_out |= {("Pod", (w.namespace, task.name)) for w in absent for task in w.tasks}
        for (kind, key), text in sorted(self._texts.items()):
            if (kind, key) not in left_out:
                yield self._seen(kind, key, msgspec.json.decode(text))

    def _seen(self, kind: str, key: Key, thing: Object) -> Object:
        """An object with what is assumed about it."""
        if kind == "Pod" and key in self._world.pods:
            thing = apply_merge_patch(thing, _of_pod(thing, self._world.pods[key]))
        if kind in self._world.jobs and key in self._world.jobs[kind]:
            thing = apply_merge_patch(thing, {"status": _of_job(thing, self._world.jobs[kind][key])})
        if kind == "Job" and GANG not in thing["spec"]["template"].get("metadata", {}).get("annotations", {}):
            thing = apply_merge_patch(thing, {"spec": {"suspend": True}})
        return thing

    def _forget(self) -> None:
        for number in sorted(_numbers(self._directory))[: -self._keep]:
            shutil.rmtree(self._directory / f"{number:06}")


def _of_pod(thing: Object, pod: PodRecord) -> Object:
    """The patch that makes a pod say what its record says."""
    metadata: Object = {}
    if pod.leaving and not thing["metadata"].get("deletionTimestamp"):
        metadata["deletionTimestamp"] = format_time(pod.created)
    since = None if pod.broken_since is None else format_time(pod.broken_since)
    if since != thing["metadata"].get("annotations", {}).get(BROKEN_SINCE):
        metadata["annotations"] = {BROKEN_SINCE: since}
    return {
        "metadata": metadata,
        "spec": {"nodeName": pod.node or None},
        "status": {"nominatedNodeName": pod.nominated or None},
    }


def _of_job(thing: Object, job: Any) -> Object:  # noqa: ANN401 - of any kind
    """The patch that makes a job's status say what its view says."""
    told = msgspec.to_builtins(msgspec.convert(thing.get("status") or {}, type(job.status)))
    return make_merge_patch(told, msgspec.to_builtins(job.status))


def _numbers(directory: Path) -> list[int]:
    return [int(path.name) for path in directory.iterdir() if path.name.isdecimal()]


def _command(place: Path, now: float) -> str:
    time = datetime.fromtimestamp(now, UTC).isoformat()
    parts = ["shoal", "plan", "-f", f"{place}/world.json", "--config", f"{place}/scheduler.json"]
    return shlex.join([*parts, "--now", time, "-o", "json"]) + "\n"
