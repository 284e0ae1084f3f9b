"""A Job has the same outcome whenever its controller is killed: before or after each of its writes."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import pytest

from shoal.api.core import INDEX_KEY
from shoal.cluster.errors import ConflictError, NotFoundError
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import JOBS, PODS, Object
from shoal.kinds.batchjob.controller import job_controller
from tests.controllers.harness import WRITES, registry, run_runtime
from tests.controllers.virtual_time import run_virtual
from tests.kinds.batchjob.scenarios import outcome

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}
BIND_AFTER, LASTS = 1.0, 4.0


@dataclass
class CrashingPort:
    """A port whose process crashes at one of its writes: from then on its calls have no effect."""

    cluster: Cluster
    crash_at: int
    after: bool
    """Whether the write still takes effect."""
    writes: int = 0
    crashed: asyncio.Event = field(default_factory=asyncio.Event)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of the port
        method = getattr(self.cluster, name)
        return self._write(method) if name in WRITES else method

    def _write(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - as the port has it
            if arguments[0].plural == "events":
                return await method(*arguments, **more)
            self.writes += 1
            last = self.writes == self.crash_at
            if self.crashed.is_set() or (last and not self.after):
                await self._crash()
            result = await method(*arguments, **more)
            if last:
                await self._crash()
            return result

        return write

    async def _crash(self) -> None:
        self.crashed.set()
        await asyncio.Event().wait()


@dataclass
class PodRunner:
    """Runs pods: binds them to a node, lets them run, and ends them as `fates` say.

    `1.0` is the first pod of index 1 that runs, `.2` the third of those without an index. A fate is `Failed`,
    or `deleted` (while it runs); else a pod succeeds.
    """

    store: Cluster
    fates: dict[str, str]
    ran: Counter[str] = field(default_factory=Counter)
    """Number of pods that were started, by index."""
    ended: Counter[str] = field(default_factory=Counter)
    """Number of pods that ended, by fate."""
    running: dict[str, str] = field(default_factory=dict)
    """The indexes of running pods, by uid."""
    ends: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self) -> None:
        known: set[str] = set()
        while True:
            await asyncio.sleep(0.25)
            for pod in (await self.store.list(PODS, Selector("default"))).items:
                if pod["metadata"]["uid"] not in known and "deletionTimestamp" not in pod["metadata"]:
                    known.add(pod["metadata"]["uid"])
                    self.ends.append(asyncio.create_task(self._run_pod(pod)))

    async def _run_pod(self, pod: Object) -> None:
        metadata = pod["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        await asyncio.sleep(BIND_AFTER)
        try:
            await self.store.bind(name, "default", "n1", uid=uid)
        except (ConflictError, NotFoundError):
            return
        index = metadata.get("annotations", {}).get(INDEX_KEY, "")
        assert not index or index not in self.running.values(), f"index {index} runs twice at the same time"
        self.running[uid] = index
        fate = self.fates.get(f"{index}.{self.ran[index]}", "Succeeded")
        self.ran[index] += 1
        await self._write_status(name, phase="Running")
        await asyncio.sleep(LASTS)
        if fate == "deleted":
            await self.store.delete(PODS, name, "default", Deletion(uid=uid))
            await asyncio.sleep(LASTS)
            await self._write_status(name, phase="Failed")
        else:
            await self._write_status(name, phase=fate)
        del self.running[uid]
        self.ended[fate] += 1
        if fate == "deleted":
            await self.store.delete(PODS, name, "default", Deletion(grace=0, uid=uid))

    async def _write_status(self, name: str, **status: str) -> None:
        await self.store.patch_status(PODS, name, "default", patch={"status": status})


@dataclass(frozen=True)
class JobCase:
    """A Job, the fates of its pods, and its outcome."""

    spec: Object
    fates: dict[str, str]
    end: Object


JOB_CASES = {
    "indexes, of which one fails once and one is deleted once": JobCase(
        {"completionMode": "Indexed", "completions": 3, "parallelism": 2},
        {"1.0": "Failed", "2.0": "deleted"},
        {"succeeded": 3, "failed": 1, "completed": "0-2"},
    ),
    "three completions, of which one fails and one is deleted once": JobCase(
        {"completions": 3, "parallelism": 2}, {".0": "Failed", ".3": "deleted"}, {"succeeded": 3, "failed": 1}
    ),
    "a job that fails": JobCase(
        {"completions": 4, "backoffLimit": 0}, {".1": "Failed"}, {"succeeded": 1, "failed": 1}
    ),
    "a back-off limit per index": JobCase(
        {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1},
        {"0.0": "Failed", "0.1": "Failed", "1.0": "deleted", "1.1": "Failed"},
        {"completed": "1", "failed indexes": "0", "failed": 3},
    ),
}


async def run_with_crash(case: JobCase, *, crash_at: int, after: bool) -> tuple[Object, Counter[str], int]:
    """Return the outcome of a Job with one crash, the pods that ran, and the number of writes before it."""
    async with registry() as store:
        await store.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE} | case.spec})
        runner = PodRunner(store, case.fates)
        running = asyncio.create_task(runner.run())
        port = CrashingPort(store, crash_at, after)
        async with run_runtime(cast("Cluster", port), [job_controller]):
            await until_finished(store, port.crashed)
        async with run_runtime(store, [job_controller]):
            await until_finished(store)
        running.cancel()
        await asyncio.gather(*runner.ends)
        return await outcome(store, "default"), runner.ran, port.writes


async def until_finished(store: Cluster, crashed: asyncio.Event | None = None) -> None:
    """Wait until the Job is finished, or the port has crashed."""
    for _ in range(5000):
        conditions = (await store.get(JOBS, "j", "default"))["status"].get("conditions", ())
        if (crashed and crashed.is_set()) or any(one["type"] in ("Complete", "Failed") for one in conditions):
            return
        await asyncio.sleep(0.5)
    pytest.fail("the Job does not finish")


@pytest.mark.parametrize("after", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("name", JOB_CASES)
def test_the_outcome_does_not_depend_on_crashes(name: str, after: bool) -> None:  # noqa: FBT001 - a case
    case = JOB_CASES[name]
    usual, ran, _ = run_virtual(lambda: run_with_crash(case, crash_at=0, after=after))
    assert usual | case.end == usual
    for crash_at in count(1):
        end, ran_now, writes = run_virtual(lambda: run_with_crash(case, crash_at=crash_at, after=after))  # noqa: B023 - at once
        assert (end, ran_now) == (usual, ran), f"crash at write {crash_at}"
        if writes < crash_at:
            break
    assert crash_at > 10, "there are more writes than that"
