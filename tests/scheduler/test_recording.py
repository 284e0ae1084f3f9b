"""Recorded cycles: `shoal plan` makes the same plans of them, byte for byte."""

import asyncio
import shlex
from pathlib import Path

from click.testing import CliRunner

from shoal.cli.main import cli
from shoal.engine.config import SchedulerConfig
from shoal.manager import Manager
from shoal.simulator import Slow
from tests.builders import batch_job, budget, dijob, pod, template, trainingjob
from tests.scheduler.cases import CLASSES, HIGH, LOW, ON_CPU, A, B, four, in_pool, small
from tests.scheduler.fake_controllers import run_fake_controllers
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, simulated

OBJECTS = [
    *(A, B, *CLASSES, in_pool("a", "n1"), in_pool("a", "n2"), in_pool("b", "n3", cpu=8)),
    small("low", "a", cpu=4, on="n1", priority=LOW),
    pod("guarded", cpu=1, node="n3", labels={"app": "x"}),
    budget("g", selector={"app": "x"}, min_available=1),
]
ARRIVALS = [
    small("high", "a", cpu=4, priority=HIGH),
    *(pod(f"g{i}", cpu=1, gang="g", pool="a") for i in range(3)),
    four("t", least=2),
    dijob("d", template(cpu=1), replicas=(1, 3), preemptible=True, pool="b"),
    trainingjob("e", trainer=ON_CPU, trainers=(1, 2), pool="b"),
    batch_job("j", template(cpu=1), parallelism=2),
    small("large", "a", cpu=100),
]
STEP = 0.3


def record(directory: Path, *, keep: int = 1000) -> None:
    """Record cycles with new objects, some while writes are slow, so that many decisions are assumptions."""

    async def main(one: Run) -> None:
        manager = Manager(
            one.store, SchedulerConfig(cooldown="1s"), clock=one.simulation.clock, record=directory, keep=keep
        )
        for thing in OBJECTS:
            await one.testbed.create(thing)
        running = asyncio.create_task(manager.run())
        async with (
            run_nodes(one.store, one.simulation.clock),
            run_fake_controllers(one.store, one.testbed.namespace),
        ):
            for thing in ARRIVALS:
                await one.testbed.create(thing)
                await asyncio.sleep(STEP)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    simulated(main, *(Slow(nth=nth, on="write", seconds=0.2) for nth in range(1, 40, 3)))


def test_every_cycle_is_planned_again_to_the_byte(tmp_path: Path) -> None:
    record(tmp_path)
    cycles = sorted(tmp_path.iterdir())
    assert len(cycles) >= len(ARRIVALS)
    decided = 0
    for place in cycles:
        program, *arguments = shlex.split((place / "command").read_text())
        answer = CliRunner().invoke(cli, arguments)
        assert (program, answer.exit_code) == ("shoal", 0), answer.output
        assert answer.stdout_bytes == (place / "plan.json").read_bytes(), place
        decided += b'"placements": []' not in answer.stdout_bytes
    assert decided > 3


def test_only_the_last_cycles_are_kept(tmp_path: Path) -> None:
    record(tmp_path, keep=3)
    first, *_, last = sorted(int(path.name) for path in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 3
    assert last - first == 2
    record(tmp_path, keep=3)
    assert min(int(path.name) for path in tmp_path.iterdir()) > last
