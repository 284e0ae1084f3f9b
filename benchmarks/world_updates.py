"""Cost of following a cluster: CPU for its changes, and memory for its pods.

Changes arrive as the text of complete objects, as an API server sends them. Measured are decoding them,
applying them to the World, and four snapshots per second. The floor is a loop that only parses the same
texts.
"""

import functools
import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator

import msgspec

from clusters import Raw, mixed_nodes, pod_template
from measuring import Row
from shoal.cache.live import reader, sink
from shoal.cache.snapshots import SnapshotBuilder
from shoal.cache.world import World
from shoal.cluster.object_store import Put
from shoal.cluster.resources import NODES, PODS
from shoal.engine.config import SchedulerConfig

SNAPSHOTS_PER_SECOND = 4


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds per second (parsing, updating, building), KiB per pod, and seconds per snapshot."""

    parsing: float
    updating: float
    building: float
    memory: float
    first_snapshot: float
    unchanged_snapshot: float

    @property
    def cpu(self) -> float:
        """CPU seconds per second of updating and building."""
        return self.updating + self.building


async def follow(nodes: int, pods: int) -> Row:
    """Measure the CPU of 1,000 changes per second."""
    cost = measure(nodes=nodes, pods=pods, rate=1_000, seconds=5)
    return Row(
        f"{cost.cpu:.0%} of a core ({cost.building:.0%} for snapshots)",
        f"{cost.parsing:.0%} of a core",
        f"{cost.cpu / cost.parsing:.1f}",
        "",
    )


async def unchanged_snapshot(nodes: int, pods: int) -> Row:
    """Measure a snapshot without any change, compared with one that is built from scratch."""
    cost = measure(nodes=nodes, pods=pods, rate=1_000, seconds=5)
    return Row(
        f"{cost.unchanged_snapshot * 1e3:.2f} ms",
        f"{cost.first_snapshot * 1e3:.0f} ms",
        f"{cost.unchanged_snapshot / cost.first_snapshot:.4f}",
        "",
    )


async def memory(nodes: int, pods: int) -> Row:
    """Measure the memory of the World and its snapshot builder, per pod."""
    cost = measure(nodes=nodes, pods=pods, rate=1_000, seconds=5)
    return Row(f"{cost.memory:.2f} KiB per pod", "-", "-", "≤ 4 KiB")


@functools.cache
def measure(*, nodes: int, pods: int, rate: int, seconds: int) -> Cost:
    """Follow a cluster for some seconds, with `rate` changes per second."""
    cluster = ChangingCluster(nodes, pods)
    builder = SnapshotBuilder(cluster.world, SchedulerConfig())
    cluster.fill_nodes()
    builder.build(0.0)
    gc.collect()
    tracemalloc.start()
    cluster.fill_pods()
    builder.build(0.0)
    gc.collect()
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    first = cpu(lambda: SnapshotBuilder(cluster.world, SchedulerConfig()).build(0.0))
    parsing = updating = building = 0.0
    for batch in cluster.batches(rate * seconds, rate // SNAPSHOTS_PER_SECOND):
        parsing += cpu(lambda batch=batch: [msgspec.json.decode(text) for text in batch])  # type: ignore[misc]
        updating += cpu(lambda batch=batch: cluster.apply(batch))  # type: ignore[misc]
        building += cpu(lambda: builder.build(0.0))
    return Cost(
        parsing=parsing / seconds,
        updating=updating / seconds,
        building=building / seconds,
        memory=memory / 1024 / pods,
        first_snapshot=first,
        unchanged_snapshot=cpu(lambda: builder.build(0.0)),
    )


class ChangingCluster:
    """A cluster that changes, and a World that follows it."""

    def __init__(self, nodes: int, pods: int) -> None:
        """The World is empty at first."""
        self.world = World(0.0)
        self._read_pod, self._read_node = reader(PODS, self.world), reader(NODES, self.world)
        self._take_pods, self._take_nodes = sink("Pod", self.world), sink("Node", self.world)
        self._nodes, self._pods = nodes, pods
        self._rng = random.Random(1)
        self._version = 0

    def fill_nodes(self) -> None:
        """Add all nodes to the World."""
        for raw in mixed_nodes(self._nodes):
            key = ("", raw["metadata"]["name"])
            self._take_nodes([Put(key, "1", self._read_node(msgspec.json.encode(raw)))])

    def fill_pods(self) -> None:
        """Add all pods to the World; all of them run."""
        self.apply(pod(i, f"n{i % self._nodes:05}", "Running") for i in range(self._pods))

    def batches(self, changes: int, size: int) -> Iterator[list[bytes]]:
        """Yield batches of changed pods: pending, running or succeeded."""
        for _ in range(0, changes, size):
            yield [self._change() for _ in range(size)]

    def apply(self, texts: Iterator[bytes] | list[bytes]) -> None:
        """Decode pods, and apply them to the World."""
        for text in texts:
            record = self._read_pod(text)
            self._take_pods([Put(record.key, str(self._version), record)])

    def _change(self) -> bytes:
        number, self._version = self._rng.randrange(self._pods), self._version + 1
        phase = self._rng.choice(["Pending", "Running", "Running", "Succeeded"])
        node = "" if phase == "Pending" else f"n{self._rng.randrange(self._nodes):05}"
        return pod(number, node, phase)


def pod(number: int, node: str, phase: str) -> bytes:
    """Return a pod as an API server sends it: a scheduler needs little of it."""
    name = f"p{number:06}"
    spec: Raw = pod_template("500m", f"{512 + number % 40}Mi", number % 2)["spec"]
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
            "spec": spec | ({"nodeName": node} if node else {}),
            "status": {"phase": phase, "conditions": conditions, "podIP": "10.0.0.1"},
        }
    )


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start
