"""The experiment of Paddle EDL, in the simulated home: the tables and plots of docs/edl.md.

    python benchmarks/edl.py            both cases, each with and without autoscaling
    python benchmarks/edl.py --quick    a small cluster, to see that it runs

Case 1: 20 jobs of 2 to 60 trainers (without autoscaling, of 60) are submitted, one each 10 seconds. Case 2: 6
such jobs share the cluster with a web service of a higher priority, which goes from 400 pods to 100 and back.
All of Shoal works on a cluster in memory, on virtual time; nodes take some seconds to start and to stop pods.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import msgspec

from plots import Area, stacked_plot
from shoal.api.core import Pod
from shoal.api.decode import dec_hook
from shoal.api.podspec import requests
from shoal.api.quantity import NANO
from shoal.cluster.port import Deletion
from shoal.cluster.reflector import ReflectorOptions
from shoal.cluster.resources import NAMESPACES, PODS, PRIORITY_CLASSES, Object, Text, resource_of
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from shoal.simulator import SimulatedCluster, Simulation, run
from shoal.simulator.kubelet import LoopClock, PodScript, SimulatedKubelet

IMAGES = Path(__file__).parents[1] / "docs" / "images"
NAMESPACE = "edl"
INTERVAL, STEP = 10.0, 90.0
"""Seconds between two jobs, and between two sizes of the web service."""
START, STOP = 2.0, 5.0
"""Seconds in which a node starts a pod whose image it has, and in which a deleted pod ends."""
PERIOD = 0.5
"""Seconds between two samples."""
DRAWN = 4.0
"""Seconds between two points of a plot."""
PUBLISHED = {
    ("1", True): ("43 to 47 s", "76.3 %", "86 %", "35 of 200", "0.437", ""),
    ("1", False): ("280 s", "76.2 %", "88 %", "", "", ""),
    ("2", True): ("54 s", "83.4 %", "79.4 %", "", "", ""),
    ("2", False): ("2 s", "61.9 %", "44.9 %", "", "", ""),
}
"""The published figures, by case and autoscaling, as far as there are any."""
COLUMNS = (
    *("autoscaling", "mean time pending", "CPUs in use", "in the window"),
    *("jobs below their minimum", "Jain index", "web pods wait"),
)


class Case(NamedTuple):
    """When jobs are submitted, how many web pods there are from when on, and a window of special interest."""

    name: str
    title: str
    jobs: int
    seconds: int
    window: tuple[float, float]
    web: tuple[tuple[float, int], ...] = ()


class Scale(NamedTuple):
    """The size of the experiment."""

    nodes: int
    maximum: int
    pservers: int
    divisor: int = 1


FULL = Scale(nodes=133, maximum=60, pservers=10)
QUICK = Scale(nodes=27, maximum=12, pservers=2, divisor=5)


def cases(scale: Scale) -> Iterator[Case]:
    """The two cases. The windows: after all jobs were submitted; while there are the fewest web pods."""
    yield Case("1", "20 jobs, one each 10 s", 20, 600, (260.0, 600.0))
    sizes = (400, 300, 200, 100, 200, 300, 400)
    web = tuple((60.0 + STEP * i, size // scale.divisor) for i, size in enumerate(sizes[1:]))
    title = "6 jobs and a web service of 400 to 100 pods"
    yield Case(
        "2", title, 6, 700, (60.0 + 2 * STEP + 10, 60.0 + 3 * STEP), ((0.0, sizes[0] // scale.divisor), *web)
    )


# --- the cluster -------------------------------------------------------------------------------------------


def node_cpus(scale: Scale) -> list[int]:
    """The CPUs of each node: 2,350 on 133 nodes."""
    return [18 if i % 3 < 2 else 17 for i in range(scale.nodes)]


def training_job(number: int, scale: Scale, *, autoscaling: bool) -> Object:
    """A job of the experiment."""
    trainer = {"min-instance": 2 if autoscaling else scale.maximum, "max-instance": scale.maximum}
    pserver = {"min-instance": scale.pservers, "max-instance": scale.pservers}
    return {
        "metadata": {"name": f"job-{number:02}", "namespace": NAMESPACE},
        "spec": {
            "fault_tolerant": True,
            "trainer": trainer | _resources(5, 8),
            "pserver": pserver | _resources(4, 5),
            "master": _resources(1, 1),
        },
    }


def web_pod(number: int) -> Object:
    """A pod of the web service."""
    return {
        "metadata": {"name": f"web-{number}", "namespace": NAMESPACE},
        "spec": {
            "schedulerName": "shoal",
            "priorityClassName": "web",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "nginx", "image": "nginx"} | _resources(3, 3)],
        },
    }


def _resources(cpu: int, memory: int) -> Object:
    amounts = {"cpu": str(cpu), "memory": f"{memory}Gi"}
    return {"resources": {"requests": amounts, "limits": amounts}}


# --- what is seen ------------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """The cluster at one time: CPUs in use, running trainers by job, running web pods."""

    time: float
    cpus: int
    trainers: Counter[str]
    web: int


_DECODER = msgspec.json.Decoder(Pod, dec_hook=dec_hook)


class _Running(NamedTuple):
    """A pod that runs: its job or "web", whether it is a trainer, its CPUs."""

    owner: str
    is_trainer: bool
    cpus: int


def _read(text: Text) -> _Running | None:
    pod = _DECODER.decode(text)
    if pod.status.phase != "Running":
        return None
    name, cpus = pod.metadata.name, requests(pod.spec).get("cpu", 0) // NANO
    return _Running(name[:6] if name.startswith("job-") else "web", "-trainer-" in name, cpus)


_RUNNING = PODS.read_as(_read)


def sample(store: SimulatedCluster, now: float) -> Sample:
    """Look at all pods."""
    pods = [pod for pod in store.list_now(_RUNNING) if pod]
    trainers = Counter(pod.owner for pod in pods if pod.is_trainer)
    return Sample(now, sum(pod.cpus for pod in pods), trainers, sum(pod.owner == "web" for pod in pods))


class Figures(NamedTuple):
    """The figures of a run. A job that never starts is pending until the end."""

    pending: float
    waiting: int
    use: float
    use_in_window: float
    below: int
    jain: float
    web_wait: float | None


def evaluate(case: Case, samples: Sequence[Sample], cpus: int, minimum: int) -> Figures:
    """Compute the figures of a run."""
    names = [f"job-{number:02}" for number in range(case.jobs)]
    started = [next((one.time for one in samples if one.trainers[name]), None) for name in names]
    waits = [(case.seconds if time is None else time) - INTERVAL * i for i, time in enumerate(started)]
    window = [one.cpus for one in samples if case.window[0] <= one.time <= case.window[1]]
    last = [samples[-1].trainers[name] for name in names]
    return Figures(
        pending=mean(waits),
        waiting=started.count(None),
        use=mean([one.cpus for one in samples]) / cpus,
        use_in_window=mean(window) / cpus,
        below=sum(falls_below([one.trainers[name] for one in samples], minimum) for name in names),
        jain=sum(last) ** 2 / (len(last) * sum(n * n for n in last)),
        web_wait=max(_web_waits(case, samples), default=None),
    )


def falls_below(sizes: Sequence[int], minimum: int) -> bool:
    """Return whether a job once had its minimum, and had less later."""
    first = next((i for i, size in enumerate(sizes) if size >= minimum), len(sizes))
    return any(size < minimum for size in sizes[first:])


def _web_waits(case: Case, samples: Sequence[Sample]) -> Iterator[float]:
    """Yield after how many seconds the web service had each larger size."""
    for (_, before), (time, size) in pairwise(case.web):
        if size > before:
            reached = (one.time for one in samples if one.time >= time and one.web >= size)
            yield next(reached, float(case.seconds)) - time


# --- a run -------------------------------------------------------------------------------------------------


def execute(case: Case, scale: Scale, *, autoscaling: bool) -> list[Sample]:
    """Run a case; return its samples."""
    return run(lambda simulation: _main(simulation, case, scale, autoscaling=autoscaling), seed=1)


async def _main(simulation: Simulation, case: Case, scale: Scale, *, autoscaling: bool) -> list[Sample]:
    async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
        await store.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await store.create(PRIORITY_CLASSES, {"metadata": {"name": "web"}, "value": 1000})
        nodes = {f"node-{i:03}": cpus for i, cpus in enumerate(node_cpus(scale))}
        script = PodScript(start_delay=START, shutdown=STOP)
        kubelet = SimulatedKubelet(store, list(nodes), lambda _: script, LoopClock(simulation.clock))
        for name, cpus in nodes.items():
            await kubelet.register([name], {"cpu": str(cpus), "memory": "128Gi", "pods": "110"}, {})
        options = ReflectorOptions(rng=simulation.rng("reflectors"))
        async with (
            kubelet.running(30.0),
            running(store, SchedulerConfig(), clock=simulation.clock, reflector_options=options, native=True),
        ):
            return await _submit_and_watch(store, simulation, case, scale, autoscaling=autoscaling)


async def _submit_and_watch(
    store: SimulatedCluster, simulation: Simulation, case: Case, scale: Scale, *, autoscaling: bool
) -> list[Sample]:
    begin, samples, jobs, web = simulation.clock(), [], list(range(case.jobs)), list(case.web)
    for tick in range(int(case.seconds / PERIOD)):
        time = tick * PERIOD
        if jobs and time >= jobs[0] * INTERVAL:
            job = training_job(jobs.pop(0), scale, autoscaling=autoscaling)
            await store.create(resource_of("TrainingJob"), job)
        if web and time >= web[0][0]:
            await _resize_web(store, web.pop(0)[1])
        samples.append(sample(store, simulation.clock() - begin))
        _show_progress(f"case {case.name}", int(time + PERIOD), case.seconds)
        await asyncio.sleep(PERIOD)
    return samples


async def _resize_web(store: SimulatedCluster, size: int) -> None:
    """Create and delete web pods, as a Deployment does."""
    names = {pod["metadata"]["name"] for pod in store.list_now(PODS)}
    present = sorted(int(name[4:]) for name in names if name.startswith("web-"))
    for number in present[size:]:
        await store.delete(PODS, f"web-{number}", NAMESPACE, Deletion())
    for number in sorted(set(range(size)) - set(present)):
        await store.create(PODS, web_pod(number))


def _show_progress(what: str, done: int, total: int) -> None:
    width = 40 * done // total
    end = "\n" if done == total else ""
    bar = f"{'█' * width}{'░' * (40 - width)}"
    print(f"\r{what} {bar} {done:4} of {total} s", end=end, file=sys.stderr, flush=True)


# --- the report --------------------------------------------------------------------------------------------


def main() -> None:
    """Print the tables and draw the plots."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the size, without plots")
    quick = parser.parse_args().quick
    scale = QUICK if quick else FULL
    cpus = sum(node_cpus(scale))
    for case in cases(scale):
        print(
            f"\nCase {case.name}: {case.title}\n\n| | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}"
        )
        for autoscaling in (True, False):
            samples = execute(case, scale, autoscaling=autoscaling)
            figures = evaluate(case, samples, cpus, 2 if autoscaling else scale.maximum)
            print_row("published", autoscaling, PUBLISHED[case.name, autoscaling])
            print_row("Shoal", autoscaling, shown(case, figures))
            if not quick:
                draw(case, samples, cpus, autoscaling=autoscaling)


def print_row(what: str, autoscaling: bool, cells: Sequence[str]) -> None:  # noqa: FBT001 - a row of a table
    """Print a row of the table."""
    print(f"| {what} | {'on' if autoscaling else 'off'} | {' | '.join(cells)} |", flush=True)


def shown(case: Case, figures: Figures) -> Sequence[str]:
    """Return the cells of a run."""
    never = f", {figures.waiting} never start" if figures.waiting else ""
    return (
        f"{figures.pending:.1f} s{never}",
        f"{figures.use:.1%}",
        f"{figures.use_in_window:.1%}",
        f"{figures.below} of {case.jobs}",
        f"{figures.jain:.3f}",
        "" if figures.web_wait is None else f"at most {figures.web_wait:.0f} s",
    )


def draw(case: Case, samples: Sequence[Sample], cpus: int, *, autoscaling: bool) -> None:
    """Draw the trainers of each job over time."""
    drawn, names = samples[:: int(DRAWN / PERIOD)], [f"job-{number:02}" for number in range(case.jobs)]
    areas = [Area(name, [one.trainers[name] for one in drawn]) for name in names]
    word = "with" if autoscaling else "without"
    title = f"Running trainers by job, {word} autoscaling: {case.title}"
    use = [100 * one.cpus / cpus for one in drawn]
    path = IMAGES / f"edl-{case.name}-{'on' if autoscaling else 'off'}.svg"
    path.write_text(
        stacked_plot(title, [one.time for one in drawn], areas, ("CPUs in use", use)), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
