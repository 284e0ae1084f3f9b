"""What scenes on a few nodes are made of: machines, gangs, and how something is created."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager

from shoal.cluster.port import Cluster
from shoal.cluster.reflector import ReflectorOptions
from shoal.cluster.resources import BY_KIND, Object
from shoal.simulator import SimulatedCluster, Simulation
from shoal.simulator.kubelet import SimulatedKubelet, LoopClock, ScriptSource, simulated_kubelet
from tests.builders import pod


def nodes(
    simulation: Simulation, store: SimulatedCluster, pool: str, size: int, script: ScriptSource
) -> AbstractAsyncContextManager[SimulatedKubelet]:
    """So many nodes of a pool, named after it: four CPUs each."""
    return simulated_kubelet(
        store,
        [f"{pool}{number}" for number in range(size)],
        script=script,
        clock=LoopClock(simulation.clock),
        capacity={"cpu": "4", "memory": "8Gi", "pods": "10"},
        labels={"pool": pool},
        pace=ReflectorOptions(rng=simulation.dice(pool)),
        heartbeat=50.0,
    )


def gang(name: str, space: str, home: str, cpu: int, size: int) -> Iterator[Object]:
    """Pods that start together, and run once."""
    for number in range(size):
        spec = {"restartPolicy": "Never"}
        title = f"{name}-{number}"
        yield pod(title, namespace=space, cpu=cpu, pool=home, gang=name, gang_min=size, spec=spec)


async def create(cluster: Cluster, one: Object) -> None:
    """Make an object of any kind."""
    await cluster.create(BY_KIND[one["apiVersion"], one["kind"]], one)
