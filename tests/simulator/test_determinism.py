"""The same seed gives the same run, to the byte: within a process, and in another one."""

import asyncio
import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

from shoal.cluster.errors import ClusterError
from shoal.cluster.object_store import Cache
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import ReflectorOptions, Reflectors
from shoal.cluster.resources import CONFIG_MAPS, PODS, SERVICES, Object
from shoal.simulator import (
    ChaosOptions,
    ChangeLog,
    Connection,
    FaultInjector,
    DropEvent,
    Simulation,
    run_with_restarts,
    random_schedule,
    run,
)
from tests.simulator.scenes import config_map, opened

_HOUR = 3600.0
_KINDS = (CONFIG_MAPS, PODS, SERVICES)


def told_by(seed: int) -> bytes:
    """Everything that happened in an hour of busy people, of a follower who crashes, and of faults."""
    return run(_hour, seed=seed)


async def _hour(simulation: Simulation) -> bytes:
    async with opened(simulation) as store:
        chronicle = ChangeLog()
        store.witnesses.append(chronicle)
        extent = ChaosOptions(faults=60, seconds=_HOUR)
        faults = FaultInjector(random_schedule(simulation.dice("faults"), extent), simulation.clock)
        heard: list[str] = []
        connection = Connection(store, faults)
        people = [_busy(connection, name, simulation.dice(name)) for name in ("ann", "bob", "cy")]
        tasks = [asyncio.create_task(person) for person in people]
        try:
            async with asyncio.timeout(_HOUR):
                await run_with_restarts(store, faults, lambda cluster: _follow(cluster, simulation, heard))
        except TimeoutError:
            pass
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return b"\n".join((chronicle.text(), *map(str.encode, faults.story), *map(str.encode, heard)))


async def _follow(cluster: Cluster, simulation: Simulation, heard: list[str]) -> None:
    reflectors = Reflectors(cluster, ReflectorOptions(rng=simulation.dice("pace")))
    for kind in _KINDS:
        cache = Cache[Object]()
        reflectors.follow(kind, cache)
        reflectors.follow(kind, lambda changes: heard.extend(map(str, changes)))
    await reflectors.run()


async def _busy(cluster: Cluster, name: str, dice: random.Random) -> None:
    while True:
        await asyncio.sleep(dice.expovariate(0.05))
        thing = f"{name}-{dice.randrange(5)}"
        try:
            if dice.choice((False, True)):
                await cluster.create(CONFIG_MAPS, config_map(thing, by=name))
            else:
                await cluster.delete(CONFIG_MAPS, thing, "default")
        except ClusterError:
            continue


def test_the_same_seed_gives_the_same_run() -> None:
    assert told_by(1) == told_by(1)


def test_another_seed_gives_another_run() -> None:
    assert told_by(1) != told_by(2)


def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    """Where hashes of strings, and addresses, are others."""
    program = f"import hashlib; {_IMPORT}; print(hashlib.sha256(told_by(3)).hexdigest())"
    root = Path(__file__).parents[2]
    said = [
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
    assert said == [hashlib.sha256(told_by(3)).hexdigest()] * 2


_IMPORT = "from tests.simulator.test_determinism import told_by"


def test_no_schedule_by_dice_loses_events_for_good() -> None:
    schedule = random_schedule(random.Random(1), ChaosOptions(faults=5000))
    assert not [fault for fault in schedule.faults if isinstance(fault, DropEvent)]
