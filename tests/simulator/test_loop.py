"""The virtual loop: timers in order, errors for stuck runs and for what is not simulated."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shoal.simulator import NotSimulatedError, Simulation, StuckError, run

DAY = 86_400.0


def now() -> float:
    return asyncio.get_running_loop().time()


def test_timers_run_in_order_at_their_time() -> None:
    async def main(_: Simulation) -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []

        async def wait(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, now()))

        async with asyncio.TaskGroup() as group:
            for name, seconds in (("late", 3.0), ("at once", 0.0), ("soon", 0.5), ("in a month", 30 * DAY)):
                group.create_task(wait(name, seconds))
        return seen

    assert run(main) == [("at once", 0.0), ("soon", 0.5), ("late", 3.0), ("in a month", 30 * DAY)]


def test_timers_fire_for_three_years() -> None:
    """So late that a float is coarser than the clock resolution of a real loop."""

    async def main(_: Simulation) -> tuple[int, float]:
        ticks = 0
        while now() < 1000 * DAY:
            await asyncio.sleep(DAY / 7)
            ticks += 1
        return ticks, now()

    ticks, end = run(main)
    assert ticks in (7000, 7001)
    assert end == pytest.approx(1000 * DAY, rel=1e-3)


def test_no_timer_fires_early_while_tasks_are_busy() -> None:
    async def main(_: Simulation) -> bool:
        async def busy() -> None:
            for _iteration in range(1000):
                await asyncio.sleep(0)

        await asyncio.sleep(DAY)
        due, others = now() + 1e-10, asyncio.create_task(busy())
        await asyncio.sleep(1e-10)
        await others
        return now() >= due

    assert run(main)


def test_timeouts_use_virtual_time() -> None:
    async def main(_: Simulation) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(DAY):
                await asyncio.sleep(2 * DAY)
        return now()

    assert run(main) == DAY


def test_the_wall_clock_runs_with_the_loop_and_jumps() -> None:
    async def main(simulation: Simulation) -> list[float]:
        seen = [simulation.clock()]
        await asyncio.sleep(10)
        seen.append(simulation.clock())
        simulation.clock.jump(-60)
        seen.append(simulation.clock())
        await asyncio.sleep(10)
        return [*seen, simulation.clock(), now()]

    assert run(main, start=1000.0) == [1000.0, 1010.0, 950.0, 960.0, 20.0]


def test_remaining_tasks_are_cancelled_oldest_first() -> None:
    ended: list[int] = []

    async def sleep(number: int) -> None:
        try:
            await asyncio.sleep(DAY)
        finally:
            ended.append(number)

    async def main(_: Simulation) -> None:
        main.tasks = [asyncio.create_task(sleep(number)) for number in range(50)]  # type: ignore[attr-defined]
        await asyncio.sleep(1)

    run(main)
    assert ended == list(range(50))


def test_a_set_of_tasks_has_the_same_order_in_every_run() -> None:
    async def main(_: Simulation) -> list[str]:
        tasks = {asyncio.create_task(asyncio.sleep(1), name=str(number)) for number in range(100)}
        done, _rest = await asyncio.wait(tasks)
        return [task.get_name() for task in done]

    assert run(main) == run(main) == run(main)


def test_tasks_have_the_same_names_in_every_run() -> None:
    async def main(_: Simulation) -> str:
        return asyncio.create_task(asyncio.sleep(0)).get_name()

    assert run(main) == run(main)


# --- stuck ----------------------------------------------------------------------------------------------


def test_a_deadlock_is_reported_with_the_waiting_tasks() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async def main(_: Simulation) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(never(), name="the controller")

    with pytest.raises(
        StuckError,
        match=r"no timer is set and no task can go on: unfinished tasks: main .*, the controller \(.*never",
    ):
        run(main)


def test_a_busy_loop_is_reported_with_the_unfinished_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.simulator.loop._MAX_ITERATIONS", 1000)

    async def main(_: Simulation) -> None:
        await asyncio.sleep(7)
        while True:  # noqa: ASYNC110 - this is what is wrong with it
            await asyncio.sleep(0)

    with pytest.raises(StuckError, match=r"time does not advance from 7\.000000 s: unfinished tasks: main"):
        run(main)


def test_an_exception_of_main_is_raised() -> None:
    async def main(_: Simulation) -> None:
        await asyncio.sleep(DAY)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(main)


# --- not simulated --------------------------------------------------------------------------------------

NOT_SIMULATED: dict[str, Callable[[], Awaitable[Any]]] = {
    "a thread": lambda: asyncio.to_thread(int),
    "an executor": lambda: asyncio.get_running_loop().run_in_executor(None, int),
    "a connection": lambda: asyncio.open_connection("localhost", 1),
    "a connection to a Unix socket": lambda: asyncio.open_unix_connection("/nowhere"),
    "a server": lambda: asyncio.start_server(print, port=0),
    "a process": lambda: asyncio.create_subprocess_exec("true"),
    "a shell": lambda: asyncio.create_subprocess_shell("true"),
    "name resolution": lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1),
}


@pytest.mark.parametrize("ask", NOT_SIMULATED.values(), ids=list(NOT_SIMULATED))
def test_what_is_not_simulated_is_refused(ask: Callable[[], Awaitable[Any]]) -> None:
    async def main(_: Simulation) -> None:
        await ask()

    with pytest.raises(NotSimulatedError, match="is not simulated"):
        run(main)


def test_other_threads_cannot_call_the_loop() -> None:
    async def main(_: Simulation) -> list[type[BaseException]]:
        loop = asyncio.get_running_loop()
        refused: list[type[BaseException]] = []

        def call_in() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except NotSimulatedError as error:
                refused.append(type(error))

        thread = threading.Thread(target=call_in)
        thread.start()
        thread.join()
        loop.call_soon_threadsafe(refused.append, KeyError)
        await asyncio.sleep(0)
        return refused

    assert run(main) == [NotSimulatedError, KeyError]
