"""How much it costs to follow a cluster: CPU for its changes, and memory for its pods.

Changes come as the text of whole objects, as an API server sends them, and are measured from there on: read,
taken in, and shown by four snapshots a second. The floor is a loop that only parses the same texts.
"""

import functools
import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator

import msgspec

from clusters import Raw, machines, template
from measuring import Row
from shoal.cache.live import reader, sink
from shoal.cache.snapshots import SnapshotBuilder
from shoal.cache.world import World
from shoal.cluster.object_store import Put
from shoal.cluster.resources import NODES, PODS
from shoal.engine.config import SchedulerConfig

LOOKS = 4
"""Snapshots a second."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What following costs: seconds of CPU for each second, KiB for each pod, seconds for one snapshot."""

    parsing: float
    reading: float
    looking: float
    memory: float
    first: float
    still: float

    @property
    def cpu(self) -> float:
        """All of the CPU."""
        return self.reading + self.looking


async def follow(nodes: int, pods: int) -> Row:
    """The CPU that 1,000 changes a second take."""
    cost = following(nodes=nodes, pods=pods, rate=1_000, seconds=5)
    return Row(
        f"{cost.cpu:.0%} of a core ({cost.looking:.0%} for snapshots)",
        f"{cost.parsing:.0%} of a core",
        f"{cost.cpu / cost.parsing:.1f}",
        "",
    )


async def look(nodes: int, pods: int) -> Row:
    """A snapshot of a world in which nothing has changed, beside one that is made from scratch."""
    cost = following(nodes=nodes, pods=pods, rate=1_000, seconds=5)
    return Row(
        f"{cost.still * 1e3:.2f} ms", f"{cost.first * 1e3:.0f} ms", f"{cost.still / cost.first:.4f}", ""
    )


async def memory(nodes: int, pods: int) -> Row:
    """What the World and its assembler keep of a pod."""
    cost = following(nodes=nodes, pods=pods, rate=1_000, seconds=5)
    return Row(f"{cost.memory:.2f} KiB per pod", "-", "-", "≤ 4 KiB")


@functools.cache
def following(*, nodes: int, pods: int, rate: int, seconds: int) -> Cost:
    """Follow a cluster of so many pods for a while, `rate` changes a second."""
    stage = Stage(nodes, pods)
    view = SnapshotBuilder(stage.world, SchedulerConfig())
    stage.fill_nodes()
    view.build(0.0)
    gc.collect()
    tracemalloc.start()
    stage.fill_pods()
    view.build(0.0)
    gc.collect()
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    first = cpu(lambda: SnapshotBuilder(stage.world, SchedulerConfig()).build(0.0))
    parsing = reading = looking = 0.0
    for batch in stage.batches(rate * seconds, rate // LOOKS):
        parsing += cpu(lambda batch=batch: [msgspec.json.decode(text) for text in batch])  # type: ignore[misc]
        reading += cpu(lambda batch=batch: stage.take(batch))  # type: ignore[misc]
        looking += cpu(lambda: view.build(0.0))
    return Cost(
        parsing=parsing / seconds,
        reading=reading / seconds,
        looking=looking / seconds,
        memory=memory / 1024 / pods,
        first=first,
        still=cpu(lambda: view.build(0.0)),
    )


class Stage:
    """A cluster that changes, and a world that is told of it."""

    def __init__(self, nodes: int, pods: int) -> None:
        """Nothing is told yet."""
        self.world = World(0.0)
        self._read_pod, self._read_node = reader(PODS, self.world), reader(NODES, self.world)
        self._take_pods, self._take_nodes = sink("Pod", self.world), sink("Node", self.world)
        self._nodes, self._pods = nodes, pods
        self._rng = random.Random(1)
        self._version = 0

    def fill_nodes(self) -> None:
        """Tell of all nodes."""
        for raw in machines(self._nodes):
            key = ("", raw["metadata"]["name"])
            self._take_nodes([Put(key, "1", self._read_node(msgspec.json.encode(raw)))])

    def fill_pods(self) -> None:
        """Tell of all pods, which run."""
        self.take(pod(i, f"n{i % self._nodes:05}", "Running") for i in range(self._pods))

    def batches(self, changes: int, size: int) -> Iterator[list[bytes]]:
        """Pods as they change: some wait, get nodes, run or end."""
        for _ in range(0, changes, size):
            yield [self._change() for _ in range(size)]

    def take(self, texts: Iterator[bytes] | list[bytes]) -> None:
        """Read pods and take them in."""
        for text in texts:
            record = self._read_pod(text)
            self._take_pods([Put(record.key, str(self._version), record)])

    def _change(self) -> bytes:
        number, self._version = self._rng.randrange(self._pods), self._version + 1
        phase = self._rng.choice(["Pending", "Running", "Running", "Succeeded"])
        where = "" if phase == "Pending" else f"n{self._rng.randrange(self._nodes):05}"
        return pod(number, where, phase)


def pod(number: int, where: str, phase: str) -> bytes:
    """A pod as an API server sends it: most of it is of no interest to a scheduler."""
    name = f"p{number:06}"
    spec: Raw = template("500m", f"{512 + number % 40}Mi", number % 2)["spec"]
    spec["containers"][0]["env"] = [{"name": f"VARIABLE_{i}", "value": f"value {i} of it"} for i in range(20)]
    spec["volumes"] = [
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    ]
    spec |= {
        "schedulerName": "shoal",
        "priority": 0,
        "enableServiceLinks": True,
        "serviceAccountName": "default",
    }
    fields: Raw = {f"f:field-{i}": {"f:part": {}, "k:{name}": {".": {}}} for i in range(30)}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2024-05-01T00:00:00Z"}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": f"team-{number % 50}",
                "uid": f"00000000-0000-0000-0000-{number:012}",
                "creationTimestamp": "2024-05-01T00:00:00Z",
                "labels": {"app": f"a{number % 500}", "instance": name},
                "managedFields": [{"manager": "kubelet", "fieldsV1": fields}],
            },
            "spec": spec | ({"nodeName": where} if where else {}),
            "status": {"phase": phase, "conditions": conditions, "podIP": "10.0.0.1"},
        }
    )


def cpu(work: Callable[[], object]) -> float:
    """The CPU time of something."""
    start = time.process_time()
    work()
    return time.process_time() - start
