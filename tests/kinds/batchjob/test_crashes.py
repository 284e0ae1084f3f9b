"""A Job comes to the same end whenever its controller is killed: before or after each of its writes."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import pytest

from shoal.api.batch import INDEX_KEY
from shoal.cluster.errors import ConflictError, NotFoundError
from shoal.cluster.port import Cluster, Deletion, Where
from shoal.cluster.resources import JOBS, PODS, Object
from shoal.kinds.batchjob.reconcile import job_controller
from tests.controllers.scenes import WRITES, at_work, registry
from tests.controllers.virtual import virtually
from tests.kinds.batchjob.scenarios import outcome

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}
BIND_AFTER, LASTS = 1.0, 4.0


@dataclass
class Mortal:
    """A port whose holder dies at one of its writes: from then on nothing of what it does has any effect."""

    cluster: Cluster
    dies_at: int
    late: bool
    """Whether the write is still made."""
    writes: int = 0
    died: asyncio.Event = field(default_factory=asyncio.Event)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of the port
        method = getattr(self.cluster, name)
        return self._write(method) if name in WRITES else method

    def _write(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - as the port has it
            if arguments[0].plural == "events":
                return await method(*arguments, **more)
            self.writes += 1
            last = self.writes == self.dies_at
            if self.died.is_set() or (last and not self.late):
                await self._die()
            result = await method(*arguments, **more)
            if last:
                await self._die()
            return result

        return write

    async def _die(self) -> None:
        self.died.set()
        await asyncio.Event().wait()


@dataclass
class Life:
    """Plays the lives of pods: gives them a node, lets them run, and ends them as `fates` say.

    `1.0` is the first pod of index 1 that runs, `.2` the third of those without an index. A fate is `Failed`,
    or `taken` (deleted while it runs); else a pod succeeds.
    """

    home: Cluster
    fates: dict[str, str]
    ran: Counter[str] = field(default_factory=Counter)
    """How many pods of each index have begun to run."""
    ended: Counter[str] = field(default_factory=Counter)
    """How many pods have ended how."""
    alive: dict[str, str] = field(default_factory=dict)
    """Pods that run, by uid: their index."""
    ends: list[asyncio.Task[None]] = field(default_factory=list)

    async def go_on(self) -> None:
        known: set[str] = set()
        while True:
            await asyncio.sleep(0.25)
            for pod in (await self.home.list(PODS, Where("default"))).items:
                if pod["metadata"]["uid"] not in known and "deletionTimestamp" not in pod["metadata"]:
                    known.add(pod["metadata"]["uid"])
                    self.ends.append(asyncio.create_task(self._live(pod)))

    async def _live(self, pod: Object) -> None:
        metadata = pod["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        await asyncio.sleep(BIND_AFTER)
        try:
            await self.home.bind(name, "default", "n1", uid=uid)
        except (ConflictError, NotFoundError):
            return
        index = metadata.get("annotations", {}).get(INDEX_KEY, "")
        assert not index or index not in self.alive.values(), f"index {index} runs twice at once"
        self.alive[uid] = index
        fate = self.fates.get(f"{index}.{self.ran[index]}", "Succeeded")
        self.ran[index] += 1
        await self._say(name, phase="Running")
        await asyncio.sleep(LASTS)
        if fate == "taken":
            await self.home.delete(PODS, name, "default", Deletion(uid=uid))
            await asyncio.sleep(LASTS)
            await self._say(name, phase="Failed")
        else:
            await self._say(name, phase=fate)
        del self.alive[uid]
        self.ended[fate] += 1
        if fate == "taken":
            await self.home.delete(PODS, name, "default", Deletion(grace=0, uid=uid))

    async def _say(self, name: str, **status: str) -> None:
        await self.home.patch_status(PODS, name, "default", patch={"status": status})


@dataclass(frozen=True)
class Story:
    """A Job, what its pods meet with, and how it ends."""

    spec: Object
    fates: dict[str, str]
    end: Object


STORIES = {
    "indexes, of which one fails once and one is taken": Story(
        {"completionMode": "Indexed", "completions": 3, "parallelism": 2},
        {"1.0": "Failed", "2.0": "taken"},
        {"succeeded": 3, "failed": 1, "completed": "0-2"},
    ),
    "any three, of which one fails and one is taken": Story(
        {"completions": 3, "parallelism": 2}, {".0": "Failed", ".3": "taken"}, {"succeeded": 3, "failed": 1}
    ),
    "a job that fails": Story(
        {"completions": 4, "backoffLimit": 0}, {".1": "Failed"}, {"succeeded": 1, "failed": 1}
    ),
    "indexes with a limit each": Story(
        {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1},
        {"0.0": "Failed", "0.1": "Failed", "1.0": "taken", "1.1": "Failed"},
        {"completed": "1", "given up": "0", "failed": 3},
    ),
}


async def lived(story: Story, *, dies_at: int, late: bool) -> tuple[Object, Counter[str], int]:
    """The end of a story in which somebody dies; who had run until then, and how many writes there were."""
    async with registry() as home:
        await home.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE} | story.spec})
        life = Life(home, story.fates)
        living = asyncio.create_task(life.go_on())
        mortal = Mortal(home, dies_at, late)
        async with at_work(cast("Cluster", mortal), [job_controller]):
            await until_over(home, mortal.died)
        async with at_work(home, [job_controller]):
            await until_over(home)
        living.cancel()
        await asyncio.gather(*life.ends)
        return await outcome(home, "default"), life.ran, mortal.writes


async def until_over(home: Cluster, died: asyncio.Event | None = None) -> None:
    """Wait for the end of the Job, or for a death."""
    for _ in range(5000):
        conditions = (await home.get(JOBS, "j", "default"))["status"].get("conditions", ())
        if (died and died.is_set()) or any(one["type"] in ("Complete", "Failed") for one in conditions):
            return
        await asyncio.sleep(0.5)
    pytest.fail("it does not end")


@pytest.mark.parametrize("late", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("name", STORIES)
def test_it_ends_the_same_whenever_somebody_dies(name: str, late: bool) -> None:  # noqa: FBT001 - a case
    story = STORIES[name]
    usual, ran, _ = virtually(lambda: lived(story, dies_at=0, late=late))
    assert usual | story.end == usual
    for dies_at in count(1):
        end, ran_now, writes = virtually(lambda: lived(story, dies_at=dies_at, late=late))  # noqa: B023 - at once
        assert (end, ran_now) == (usual, ran), f"somebody died at write {dies_at}"
        if writes < dies_at:
            break
    assert dies_at > 10, "it takes more writes than that"
