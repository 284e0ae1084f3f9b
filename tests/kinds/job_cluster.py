"""A job controller without a cluster: applies the changes of a pure reconcile, and stands in for the kubelet.

    cluster = JobCluster(job, ManagedDIJob, lambda view, now: reconcile(view, now, SchedulerConfig()))
    cluster.settle()
    cluster.run()             # bind all new pods and let them be Ready
    cluster.end("job-0-1", 3)

Deleted pods that are bound keep running until `finish` ends them. `killed_after` stops a step after that many
writes, as a crash of the controller does; with `crash_at` the controller is killed once it has made that many
writes in all.
"""

from collections.abc import Callable
from typing import Any, Final, Generic

import msgspec

from shoal.api.decode import dec_hook
from shoal.api.managed import ManagedConfigMap, ManagedPod, ManagedService
from shoal.cluster.times import format_time
from shoal.controllers.changes import Changes, Create, Delete, Patch, PatchStatus, RequireAbsent, Write
from shoal.controllers.jobs.view import J, JobView, is_controlled

NOW: Final = 1_800_000_000.0
UID: Final = "0123abcd-0000-0000-0000-000000000000"
FINALIZER: Final = "shoal.io/tracking"
TEMPLATE: Final[dict[str, Any]] = {"spec": {"containers": [{"name": "w", "image": "x"}]}}
_FINISHED: Final = ("Succeeded", "Failed")


def make_object(name: str, spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a job as JSON has it."""
    meta = {"name": name, "namespace": "default", "uid": UID, "generation": 1, "resourceVersion": "1"}
    return {"metadata": meta, "spec": spec, "status": status or {}}


class JobCluster(Generic[J]):
    """One job with its pods and its service."""

    def __init__(
        self,
        job: dict[str, Any],
        managed: type[J],
        reconcile: Callable[[JobView[J], float], Changes],
    ) -> None:
        self.job, self.now = job, NOW
        self._managed, self._reconcile = managed, reconcile
        self.pods: dict[str, dict[str, Any]] = {}
        self.created: list[str] = []
        """Names of all pods that were ever created, in order."""
        self.service: dict[str, Any] | None = None
        self.config_map: dict[str, Any] | None = None
        self.events: list[str] = []
        self.is_deleted = False
        self.crash_at: int | None = None
        """Writes that are left until the controller is killed, and starts again; None if it is not."""
        self.phases: list[str] = []
        """All phases that the job was in, in order."""
        self._uids = 0

    # --- the controller -----------------------------------------------------------------------------------

    def view(self) -> JobView[J]:
        job = msgspec.convert(self.job, self._managed, dec_hook=dec_hook)
        pods = {name: msgspec.convert(pod, ManagedPod) for name, pod in self.pods.items()}
        service = msgspec.convert(self.service, ManagedService) if self.service else None
        hosts = msgspec.convert(self.config_map, ManagedConfigMap) if self.config_map else None
        own = tuple(pod for pod in pods.values() if is_controlled(pod, job.metadata.uid))
        return JobView(job=job, pods=own, service=service, hosts=hosts, pod_named=pods.get)

    def step(self, killed_after: int | None = None) -> Changes:
        """Reconcile once, and make the writes."""
        changes = self._reconcile(self.view(), self.now)
        self.events += [event.reason for event in changes.events]
        writes = [write for stage in changes.stages for write in stage]
        for write in writes[: self._crash(len(writes)) if killed_after is None else killed_after]:
            self._apply(write)
        self.collect()
        phase = msgspec.convert(self.job, self._managed, dec_hook=dec_hook).phase
        if phase and [phase] != self.phases[-1:]:
            self.phases.append(phase)
        return changes

    def _crash(self, writes: int) -> int:
        """Return how many of some writes the controller makes before it is killed."""
        made = writes if self.crash_at is None else min(writes, self.crash_at)
        if self.crash_at is not None:
            self.crash_at = self.crash_at - writes if writes <= self.crash_at else None
        return made

    def settle(self, steps: int = 60) -> None:
        """Reconcile until nothing changes any more."""
        for _ in range(steps):
            if self.is_deleted or not any(self.step().stages):
                return
        raise AssertionError("it does not settle")

    def _apply(self, write: Write) -> None:
        if write.resource.plural == "configmaps":
            self._write_config_map(write)
            return
        match write:
            case PatchStatus():
                merge(self.job["status"], write.patch["status"])
            case Create(resource=resource) if resource.plural == "services":
                self.service = write.body
            case Create():
                self.create(write.body)
            case Patch():
                finalizers = write.patch["metadata"]["finalizers"]
                self.pods[write.name]["metadata"]["finalizers"] = finalizers or []
            case RequireAbsent():
                assert write.name not in self.pods, "the view is stale"
            case Delete(resource=resource) if resource.plural == "services":
                self.service = None
            case Delete(resource=resource) if resource.plural == "pods":
                self.delete(write.name)
            case Delete():
                self.is_deleted = True

    def _write_config_map(self, write: Write) -> None:
        match write:
            case Create(body=body):
                assert not self.config_map, "it exists"
                self.config_map = body
            case Delete():
                self.config_map = None
            case Patch() | PatchStatus():
                assert self.config_map
                merge(self.config_map, write.patch)

    # --- the API server -----------------------------------------------------------------------------------

    def create(self, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        assert name not in self.pods, f"{name} exists"
        self._uids += 1
        stamp = {"uid": f"pod-{self._uids}", "creationTimestamp": format_time(self.now)}
        self.pods[name] = {"metadata": body["metadata"] | stamp, "spec": dict(body["spec"]), "status": {}}
        self.created.append(name)

    def delete(self, name: str) -> None:
        """Delete a pod: what runs gets a grace period."""
        pod = self.pods[name]
        ended = pod["status"].get("phase") in _FINISHED
        grace = 0 if ended or not pod["spec"].get("nodeName") else 30
        pod["metadata"]["deletionTimestamp"] = format_time(self.now + grace)
        pod["metadata"]["deletionGracePeriodSeconds"] = grace
        self.collect()

    def evict(self, *names: str) -> None:
        """Delete pods as the scheduler does: they are disrupted."""
        for name in names:
            times = {"lastTransitionTime": format_time(self.now)}
            disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "Preempted"} | times
            self.pods[name]["status"].setdefault("conditions", []).append(disrupted)
            self.delete(name)

    def lose(self, *names: str) -> None:
        """Force the deletion of pods whose node is gone."""
        for name in names:
            stamps = {"deletionTimestamp": format_time(self.now), "deletionGracePeriodSeconds": 0}
            self.pods[name]["metadata"] |= stamps
        self.collect()

    def collect(self) -> None:
        """Remove deleted pods that nothing holds any more."""
        for name, pod in list(self.pods.items()):
            meta = pod["metadata"]
            ended = pod["status"].get("phase") in _FINISHED
            held = meta.get("finalizers") or not (ended or meta.get("deletionGracePeriodSeconds") == 0)
            if meta.get("deletionTimestamp") and not held:
                del self.pods[name]

    def edit(self, **spec: Any) -> None:  # noqa: ANN401 - fields of the spec
        """Change fields of the spec."""
        self.job["spec"] |= spec
        self.job["metadata"]["generation"] += 1

    # --- the kubelet --------------------------------------------------------------------------------------

    def bind(self, *names: str) -> None:
        """Bind pods: these, or all that are not bound."""
        for name in names or self.pods:
            if not self.pods[name]["spec"].get("nodeName"):
                self.pods[name]["spec"]["nodeName"] = "n"
                scheduled = {"type": "PodScheduled", "status": "True"}
                self.pods[name]["status"]["conditions"] = [
                    scheduled | {"lastTransitionTime": format_time(self.now)}
                ]

    def run(self, *names: str) -> None:
        """Bind pods that have not started, these or all, and let them be Ready."""
        for name in names or self.pods:
            pod = self.pods[name]
            is_new = pod["status"].get("phase", "Pending") == "Pending"
            if is_new and "deletionTimestamp" not in pod["metadata"]:
                pod["spec"]["nodeName"] = pod["spec"].get("nodeName", "n")
                pod["status"] = {
                    "phase": "Running",
                    "podIP": "10.0.0.1",
                    "conditions": [{"type": "Ready", "status": "True"}],
                }

    def run_all(self) -> None:
        """Let the job create and start all its pods, and those that become due by that."""
        self.settle()
        for _ in range(40):
            before = len(self.created)
            self.run()
            self.settle()
            if len(self.created) == before:
                return
        raise AssertionError("it does not settle")

    def fail_image(self, name: str, reason: str) -> None:
        """Bind a pod whose image cannot be pulled."""
        self.bind(name)
        waiting = {"reason": reason, "message": "no such image"}
        self.pods[name]["status"]["containerStatuses"] = [{"name": "w", "state": {"waiting": waiting}}]

    def end(self, name: str, code: int = 0, reason: str = "") -> None:
        """End a pod with an exit code."""
        terminated = {"exitCode": code, "finishedAt": format_time(self.now)}
        self.pods[name]["status"] |= {
            "phase": "Failed" if code else "Succeeded",
            "reason": reason,
            "conditions": [],
            "containerStatuses": [{"name": "w", "state": {"terminated": terminated}}],
        }
        self.collect()

    def finish(self, code: int = 143) -> None:
        """End all terminating pods."""
        for name, pod in list(self.pods.items()):
            if "deletionTimestamp" in pod["metadata"] and pod["status"].get("phase") not in _FINISHED:
                self.end(name, code)

    # --- what is seen -------------------------------------------------------------------------------------

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.job["status"]
        return status

    @property
    def reason(self) -> str:
        """The reason of the condition of the present phase."""
        beside = ("Scheduled", "Suspended")
        (true,) = (c for c in self.status["conditions"] if c["status"] == "True" and c["type"] not in beside)
        return str(true["reason"])

    @property
    def host_files(self) -> dict[str, list[str]]:
        """The host of each line of each host file; the short names."""
        data = self.config_map["data"] if self.config_map else {}
        return {name: [line.partition(".")[0] for line in text.splitlines()] for name, text in data.items()}

    @property
    def message(self) -> str:
        """The message of the condition of the present phase."""
        (text,) = (c.get("message", "") for c in self.status["conditions"] if c["type"] == self.phases[-1])
        return str(text)

    @property
    def running(self) -> list[str]:
        """The names of the pods that run and are not terminating."""
        return sorted(
            name
            for name, pod in self.pods.items()
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        )

    def env(self, pod: str) -> dict[str, str]:
        """Return the environment of the first container of a pod."""
        return {one["name"]: one.get("value", "") for one in self.pods[pod]["spec"]["containers"][0]["env"]}


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """Apply a JSON merge patch in place."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = value
