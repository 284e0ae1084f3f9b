"""What others ask about pods of this machine: a run of a container, and what each consumes."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from shoal.cluster.errors import BadRequestError
from shoal.cluster.object_store import Key
from shoal.cluster.resources import Object
from shoal.kubelet.runtime import Consumption, Load, Run, Runtime

_SHORTEST: Final = 1.0
"""Seconds over which a rate is worth telling."""


def run_of(runtime: Runtime, pod: Object, container: str, *, previous: bool) -> Run:
    """The run that somebody means; in the words of a kubelet if there is none."""
    name = pod["metadata"]["name"]
    runs = [run for run in runtime.runs(pod["metadata"]["uid"]) if run.spec.container == container]
    if previous and len(runs) < 2:  # noqa: PLR2004 - the last one, and one before it
        raise BadRequestError(f'previous terminated container "{container}" in pod "{name}" not found')
    if not runs:
        reason = _waits_for(pod, container)
        raise BadRequestError(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    return runs[-2 if previous else -1]


def _waits_for(pod: Object, container: str) -> str:
    status = pod.get("status", {})
    for one in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        if one["name"] == container and one["state"].get("waiting"):
            return str(one["state"]["waiting"].get("reason", ""))
    return "ContainerCreating"


class _Sample(NamedTuple):
    """When a run was looked at last, what it had used by then, and how fast."""

    time: float
    cpu: float
    rate: float


class Meter:
    """Makes rates of what runs have used so far: over the time since somebody asked before."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime: Final = runtime
        self._before: dict[tuple[str, str, int], _Sample] = {}
        self._samples: dict[tuple[str, str, int], _Sample] = {}

    def measure(self, pods: Iterable[Object], nodes: Iterable[str], now: float) -> Consumption:
        """What these pods use just now. A node uses what its pods do."""
        self._before, self._samples = self._samples, {}
        found: dict[Key, dict[str, Load]] = {}
        on: dict[str, list[Load]] = {name: [] for name in nodes}
        for pod in pods:
            loads = self._of_pod(pod, now)
            node = pod["spec"].get("nodeName", "")
            if loads and node in on:
                found[pod["metadata"]["namespace"], pod["metadata"]["name"]] = loads
                on[node] += loads.values()
        by_node = {name: _sum(loads) for name, loads in on.items()}
        return Consumption(at=now, window=_SHORTEST, nodes=by_node, pods=found)

    def _of_pod(self, pod: Object, now: float) -> dict[str, Load]:
        found = {}
        for run in self._runtime.runs(pod["metadata"]["uid"]):
            used = run.usage() if run.exit is None else None
            if used is not None:
                rate = self._rate(run, used.cpu, now)
                found[run.spec.container] = Load(cpu=rate, memory=used.memory)
        return found

    def _rate(self, run: Run, cpu: float, now: float) -> float:
        key = run.spec.pod, run.spec.container, run.spec.attempt
        last = self._before.get(key) or _Sample(run.started or now, 0.0, 0.0)
        if now - last.time >= _SHORTEST:
            last = _Sample(now, cpu, max(cpu - last.cpu, 0.0) / (now - last.time))
        self._samples[key] = last
        return last.rate


def _sum(loads: list[Load]) -> Load:
    return Load(cpu=sum(one.cpu for one in loads), memory=sum(one.memory for one in loads))
