"""The same seed gives the same run, byte for byte: within a process, and in another one."""

import asyncio
import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

from shoal.cluster.errors import ClusterError
from shoal.cluster.object_store import ObjectCache
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import ReflectorOptions, Reflectors
from shoal.cluster.resources import CONFIG_MAPS, PODS, SERVICES, Object
from shoal.simulator import (
    ChangeLog,
    ChaosOptions,
    Connection,
    DropEvent,
    FaultInjector,
    Simulation,
    random_schedule,
    run,
    run_with_restarts,
)
from tests.simulator.harness import config_map, open_store

_HOUR = 3600.0
_KINDS = (CONFIG_MAPS, PODS, SERVICES)


def log_of_run(seed: int) -> bytes:
    """Return all changes, faults and events of an hour with writers, a reflector that crashes, and faults."""
    return run(_hour, seed=seed)


async def _hour(simulation: Simulation) -> bytes:
    async with open_store(simulation) as store:
        change_log = ChangeLog()
        store.commit_observers.append(change_log)
        options = ChaosOptions(faults=60, seconds=_HOUR)
        faults = FaultInjector(random_schedule(simulation.rng("faults"), options), simulation.clock)
        received: list[str] = []
        connection = Connection(store, faults)
        writers = [_write(connection, name, simulation.rng(name)) for name in ("ann", "bob", "cy")]
        tasks = [asyncio.create_task(writer) for writer in writers]
        try:
            async with asyncio.timeout(_HOUR):
                await run_with_restarts(
                    store, faults, lambda cluster: _reflect(cluster, simulation, received)
                )
        except TimeoutError:
            pass
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return b"\n".join((change_log.text(), *map(str.encode, faults.log), *map(str.encode, received)))


async def _reflect(cluster: Cluster, simulation: Simulation, received: list[str]) -> None:
    reflectors = Reflectors(cluster, ReflectorOptions(rng=simulation.rng("pace")))
    for kind in _KINDS:
        cache = ObjectCache[Object]()
        reflectors.follow(kind, cache)
        reflectors.follow(kind, lambda changes: received.extend(map(str, changes)))
    await reflectors.run()


async def _write(cluster: Cluster, name: str, rng: random.Random) -> None:
    while True:
        await asyncio.sleep(rng.expovariate(0.05))
        thing = f"{name}-{rng.randrange(5)}"
        try:
            if rng.choice((False, True)):
                await cluster.create(CONFIG_MAPS, config_map(thing, by=name))
            else:
                await cluster.delete(CONFIG_MAPS, thing, "default")
        except ClusterError:
            continue


def test_the_same_seed_gives_the_same_run() -> None:
    assert log_of_run(1) == log_of_run(1)


def test_another_seed_gives_another_run() -> None:
    assert log_of_run(1) != log_of_run(2)


def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    """Hashes of strings, and addresses, differ there."""
    program = f"import hashlib; {_IMPORT}; print(hashlib.sha256(log_of_run(3)).hexdigest())"
    root = Path(__file__).parents[2]
    digests = [
        subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", program],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    ]
    assert digests == [hashlib.sha256(log_of_run(3)).hexdigest()] * 2


_IMPORT = "from tests.simulator.test_determinism import log_of_run"


def test_random_schedules_drop_no_events() -> None:
    schedule = random_schedule(random.Random(1), ChaosOptions(faults=5000))
    assert not [fault for fault in schedule.faults if isinstance(fault, DropEvent)]
