"""Nodes, gangs and other objects for scenarios on a few nodes."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager

from shoal.cluster.port import Cluster
from shoal.cluster.reflector import ReflectorOptions
from shoal.cluster.resources import Object, by_kind
from shoal.simulator import SimulatedCluster, Simulation
from shoal.simulator.kubelet import LoopClock, ScriptSource, SimulatedKubelet, simulated_kubelet
from tests.builders import pod


def nodes(
    simulation: Simulation, store: SimulatedCluster, pool: str, size: int, script: ScriptSource
) -> AbstractAsyncContextManager[SimulatedKubelet]:
    """Run some nodes of a pool, named after it, with four CPUs each."""
    return simulated_kubelet(
        store,
        [f"{pool}{number}" for number in range(size)],
        script=script,
        clock=LoopClock(simulation.clock),
        capacity={"cpu": "4", "memory": "8Gi", "pods": "10"},
        labels={"pool": pool},
        reflector_options=ReflectorOptions(rng=simulation.rng(pool)),
        heartbeat=50.0,
    )


def gang(name: str, space: str, pool: str, cpu: int, size: int) -> Iterator[Object]:
    """The pods of a gang, which run once."""
    for number in range(size):
        spec = {"restartPolicy": "Never"}
        pod_name = f"{name}-{number}"
        yield pod(pod_name, namespace=space, cpu=cpu, pool=pool, gang=name, gang_min=size, spec=spec)


async def create(cluster: Cluster, one: Object) -> None:
    """Create an object of any kind."""
    await cluster.create(by_kind()[one["apiVersion"], one["kind"]], one)
