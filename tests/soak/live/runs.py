"""A home with real processes under rough treatment: its daemon is killed again and again, and users go on.

One thread kills the daemon with SIGKILL and starts it again. The other one acts as the users, and reads the
journal. At the end the daemon stays up until all jobs have finished.
"""

import heapq
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from shoal.client.client import Client
from shoal.client.connection import UnreachableError
from shoal.cluster.errors import AlreadyExistsError, ConflictError, InvalidError, NotFoundError
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.resources import PODS, Object, resource_of
from shoal.embedded.daemon import read_daemon_info
from tests.builders import open_pool
from tests.cli.process import shoal
from tests.soak.jobs import JobChange
from tests.soak.live.checks import LiveChecker
from tests.soak.live.jobs import CLASSES, POOLS, random_job
from tests.soak.live.journal import JournalReader
from tests.soak.live.worker import SLOTS

_NODES_OF_POOL = 2
_OPTIONS = ("--nodes", str(_NODES_OF_POOL * len(POOLS)), "--node-cpu", "6", "--node-memory", "8Gi")
_MEAN_ARRIVAL = 1.5
"""Seconds between two submissions, on average."""
_DELETED_PART = 0.1
"""The part of the jobs that their users delete."""
_LONGEST_UP = 5.0
"""Seconds between a start of the daemon and the next kill, at most."""
_POLL_INTERVAL = 0.1
_DEADLINE = 300.0
"""Seconds after which all jobs have to be finished."""


@dataclass
class LiveOutcome:
    """What happened in a run."""

    jobs: int = 0
    kills: int = 0
    pods: int = 0
    changes: int = 0
    violations: list[str] = field(default_factory=list)


def run_live(directory: Path, seed: int, seconds: float) -> LiveOutcome:
    """Run for some seconds, and until all jobs have finished."""
    home, records = directory / "home", directory / "records"
    (records / SLOTS).mkdir(parents=True)
    outcome = LiveOutcome()
    with _home(home):
        _prepare(home)
        run = _Run(home, records, random.Random(seed), outcome)
        with _killing(home, random.Random(f"{seed} kills"), outcome):
            run.users(seconds)
        run.finish()
    outcome.violations += [*run.checker.violations, *run.checker.processes_agree(), *_left_over(home)]
    outcome.pods = len(run.checker.pods)
    return outcome


class _Run:
    """The users of a home, and the checker that follows its journal."""

    def __init__(self, home: Path, records: Path, rng: random.Random, outcome: LiveOutcome) -> None:
        self._home, self._records, self._rng, self._outcome = home, records, rng, outcome
        self._journal = JournalReader(home)
        self.checker = LiveChecker(records)
        self._due: list[tuple[float, int, Callable[[Client], object]]] = []
        """What users are going to do: when, in which order, and what."""
        self._numbers = count()

    def users(self, seconds: float) -> None:
        """Submit jobs and change them, for some seconds; then make the changes that are still due."""
        end = time.monotonic() + seconds
        self._plan(0.0, self._submit)
        while self._due:
            at, _, action = self._due[0]
            if at > time.monotonic():
                self._observe()
                time.sleep(_POLL_INTERVAL)
                continue
            heapq.heappop(self._due)
            _insist(self._home, action)
            if action == self._submit and time.monotonic() < end:
                self._plan(self._rng.expovariate(1 / _MEAN_ARRIVAL), self._submit)

    def finish(self) -> None:
        """Wait until all jobs have finished; it is a violation if they do not."""
        last = time.monotonic() + _DEADLINE
        while (unfinished := self._unfinished()) and time.monotonic() < last:
            time.sleep(_POLL_INTERVAL)
        self.checker.violations.extend(f"not finished: {one}" for one in unfinished)

    def _unfinished(self) -> list[str]:
        self._observe()
        return self.checker.unfinished()

    def _observe(self) -> None:
        changes = self._journal.read()
        self._outcome.changes += len(changes)
        self.checker.observe(changes)

    def _plan(self, delay: float, action: Callable[[Client], object]) -> None:
        heapq.heappush(self._due, (time.monotonic() + delay, next(self._numbers), action))

    def _submit(self, client: Client) -> None:
        """Create a job, and plan its changes."""
        job = random_job(self._rng, f"job-{self._outcome.jobs}", self._records)
        self._outcome.jobs += 1
        kind, name = job.manifest["kind"], job.manifest["metadata"]["name"]
        self._plan(0.0, lambda client: client.create(resource_of(kind), job.manifest, "default"))
        delay = 0.0
        for change in job.changes:
            delay += change.delay
            self._plan(delay, self._changing(kind, name, change))
        if self._rng.random() < _DELETED_PART:
            self._plan(
                delay + self._rng.uniform(0, 10), lambda client: self._delete(client, resource_of(kind), name)
            )

    def _changing(self, kind: str, name: str, change: JobChange) -> Callable[[Client], object]:
        if change.do == "delete_pod":
            return lambda client: self._delete_pod(client, kind, name, change.body["number"])
        subresource = "status" if change.do == "patch_status" else ""

        def patch(client: Client) -> None:
            with suppress(InvalidError):  # the job has finished
                client.patch(resource_of(kind), name, "default", patch=change.body, subresource=subresource)

        return patch

    def _delete_pod(self, client: Client, kind: str, name: str, number: int) -> None:
        uid = client.get(resource_of(kind), name, "default")["metadata"]["uid"]
        own = [pod for pod in client.list(PODS) if _owner(pod) == uid]
        if own:
            pod = own[number % len(own)]
            self._delete(client, PODS, pod["metadata"]["name"])

    def _delete(self, client: Client, resource: Any, name: str) -> None:  # noqa: ANN401
        thing = client.get(resource, name, "default")
        self.checker.state.deleted_by_users.add(thing["metadata"]["uid"])
        client.delete(resource, name, "default", options={"propagationPolicy": "Background"})


def _owner(pod: Object) -> str:
    return next((str(one["uid"]) for one in pod["metadata"].get("ownerReferences", ())), "")


def _insist(home: Path, action: Callable[[Client], object]) -> None:
    """Do what a user wants, again until the daemon answers; the job may be gone by then."""
    while True:
        client = Client(find_access(str(home / "kubeconfig")))
        try:
            with suppress(AlreadyExistsError, NotFoundError, ConflictError):
                action(client)
        except UnreachableError:
            time.sleep(_POLL_INTERVAL)
        else:
            return
        finally:
            client.close()


# --- the home -----------------------------------------------------------------------------------------------


@contextmanager
def _home(home: Path) -> Iterator[None]:
    """Serve a home, and stop it at the end with all its pods."""
    _start(home, *_OPTIONS)
    try:
        yield
    finally:
        if read_daemon_info(home) is None:
            _start(home)
        shoal("down", "--home", str(home), "--timeout", "10")


def _start(home: Path, *options: str) -> None:
    done = shoal("up", "-d", "--home", str(home), *options)
    if done.returncode:
        raise AssertionError(f"shoal up: {done.stderr}")


def _prepare(home: Path) -> None:
    """Create the pools and the priority classes."""
    client = Client(find_access(str(home / "kubeconfig")))
    for number, name in enumerate(POOLS):
        client.create(resource_of("Pool"), open_pool(name))
        for node in range(_NODES_OF_POOL):
            patch = {"metadata": {"labels": {"pool": name}}}
            client.patch(resource_of("Node"), f"node-{number * _NODES_OF_POOL + node}", patch=patch)
    for one in CLASSES:
        client.create(resource_of("PriorityClass"), one)
    client.close()


@contextmanager
def _killing(home: Path, rng: random.Random, outcome: LiveOutcome) -> Iterator[None]:
    """Kill the daemon and start it again, all the time; at the end it is up."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(rng.uniform(0, _LONGEST_UP)):
            info = read_daemon_info(home)
            if info:
                os.kill(int(info["pid"]), signal.SIGKILL)
            while read_daemon_info(home):
                time.sleep(_POLL_INTERVAL / 10)
            _start(home)
            outcome.kills += 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _left_over(home: Path) -> Iterator[str]:
    """Yield processes that work for a home although it is down."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if str(home.parent).encode() in command and process.name != str(os.getpid()):
                yield f"process {process.name} is left over: {command!r}"
