"""A kubelet for tests: plays nodes, and gives their pods the lives that a script says.

    async with kubelet(cluster, ["n1", "n2"], script=lambda pod: runs_for(5)) as playing:
        await cluster.bind("a", "default", "n1")
        ...                                     # the pod runs, gets an IP, and succeeds 5 seconds later
        playing.script = lambda pod: Life()     # for pods that come from now on

It speaks the port and nothing else, so it works wherever objects live: above all beside a real API server
that has no kubelets. It registers its nodes (capacity, Ready, a Lease that it renews), and does to each pod
that is bound to one of them what a kubelet does: IP, phase, conditions, container statuses, restarts. A pod
that is deleted ends after its life's `dying` seconds, or its grace if that is less, and is then removed.

All that it knows of a pod it reads from the pod: it can be stopped at any moment, and another one goes on
where it was. After the `with` block nobody renews the nodes' leases and nobody tends their pods, as when a
kubelet dies; `remove_nodes` deletes them. Times come from a clock, which may be one that the test moves.
"""

import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from shoal.cluster.errors import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from shoal.cluster.mirror import Change, Key, Put
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.reflector import Reflector
from shoal.cluster.resources import LEASES, NODES, PODS, Object
from tests.kubelet import statuses
from tests.kubelet.clocks import Clock, RealClock
from tests.kubelet.lives import Life, Moment, moment_of

Script = Callable[[Object], Life]
"""The life of a pod; asked once, when its node gets it (and again by a kubelet that takes over)."""

LEASES_LIVE_IN: Final = "kube-node-lease"
HEARTBEAT: Final = 10.0
LEASE_SECONDS: Final = 40
KILLED: Final = 143
"""The exit code of what ends because it is told to."""
_AGAIN: Final = 0.1
"""Seconds after which something is tried again that the cluster could not do just then."""


@contextlib.asynccontextmanager
async def kubelet(
    cluster: Cluster,
    nodes: Iterable[str],
    *,
    script: Script = lambda _: Life(),
    clock: Clock | None = None,
    capacity: Mapping[str, str] = statuses.CAPACITY,
    labels: Mapping[str, str] | None = None,
) -> AsyncIterator["Kubelet"]:
    """Play these nodes until the block ends. They are registered, and their pods known, when it begins."""
    playing = Kubelet(cluster, list(nodes), script, clock or RealClock())
    await playing.register(capacity, labels or {})
    async with playing.at_work():
        yield playing


class Kubelet:
    """Plays nodes. `script` may be replaced at any time; pods that have a life keep it."""

    def __init__(self, cluster: Cluster, nodes: Sequence[str], script: Script, clock: Clock) -> None:
        self.script = script
        self.nodes: Final = frozenset(nodes)
        self._cluster: Final = cluster
        self._clock: Final = clock
        self._pods: Final[dict[Key, _Pod]] = {}
        self._tasks: Final = set[asyncio.Task[None]]()
        self._addresses: Final = (f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in itertools.count(1))

    # --- nodes --------------------------------------------------------------------------------------------

    async def register(self, capacity: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Make the nodes, or make them ready again if they are there."""
        for name in sorted(self.nodes):
            body = statuses.node(name, capacity, labels, self._clock.now())
            try:
                await self._cluster.create(NODES, body)
            except AlreadyExistsError:
                await self._cluster.patch(
                    NODES, name, patch={"metadata": {"labels": body["metadata"]["labels"]}}
                )
                await self._cluster.patch_status(NODES, name, patch={"status": body["status"]})
            await self._admit(name)
            await self._renew(name)

    async def _admit(self, name: str) -> None:
        """Take away the taint with which Kubernetes greets a new node."""
        taints = (await self._cluster.get(NODES, name)).get("spec", {}).get("taints", [])
        others = [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]
        if others != taints:
            await self._cluster.patch(NODES, name, patch={"spec": {"taints": others}})

    async def _renew(self, name: str) -> None:
        """Say that the node lives: write its Lease, or make it."""
        renewed = f"{statuses.written(self._clock.now())[:-1]}.000000Z"
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed}
        try:
            await self._cluster.patch(LEASES, name, LEASES_LIVE_IN, patch={"spec": spec})
        except NotFoundError:
            metadata = {"name": name, "namespace": LEASES_LIVE_IN}
            await self._cluster.create(LEASES, {"metadata": metadata, "spec": spec})

    async def set_ready(self, name: str, *, ready: bool) -> None:
        """Say whether a node is ready."""
        reason = "KubeletReady" if ready else "KubeletNotReady"
        condition = statuses.condition("Ready", holds=ready, since=self._clock.now(), reason=reason)
        await self._cluster.patch_status(NODES, name, patch={"status": {"conditions": [condition]}})

    async def remove_nodes(self) -> None:
        """Delete the nodes and their leases, as if the machines had never been there."""
        for name in sorted(self.nodes):
            with contextlib.suppress(NotFoundError):
                await self._cluster.delete(NODES, name)
            with contextlib.suppress(NotFoundError):
                await self._cluster.delete(LEASES, name, LEASES_LIVE_IN)

    async def _heartbeats(self) -> None:
        due = self._clock.now()
        while True:
            due += HEARTBEAT
            await self._clock.sleep_until(due)
            for name in sorted(self.nodes):
                with contextlib.suppress(ClusterError):
                    await self._renew(name)

    # --- pods ---------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Follow the pods and renew the leases until the block ends."""
        reflector = Reflector(self._cluster, PODS, self._hear)
        self._begin(reflector.run())
        self._begin(self._heartbeats())
        try:
            await reflector.synced.wait()
            yield
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def heard_of(self, thing: Object) -> None:
        """Come back when the kubelet knows of this version of a pod, or of a later one."""
        metadata = thing["metadata"]
        pod = self._pods[metadata["namespace"], metadata["name"]]
        while int(pod.thing["metadata"]["resourceVersion"]) < int(metadata["resourceVersion"]):
            await pod.heard.wait()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _hear(self, changes: Sequence[Change[Object]]) -> None:
        for change in changes:
            if isinstance(change, Put):
                self._hear_of(change.key, change.item)
            elif change.key in self._pods:
                self._pods.pop(change.key).task.cancel()

    def _hear_of(self, key: Key, thing: Object) -> None:
        """Begin the life of a pod that is new here, or tell it that something changed."""
        known = self._pods.get(key)
        if known is not None and known.uid == thing["metadata"]["uid"]:
            known.hear(thing, self._clock.now())
        elif thing["spec"].get("nodeName") in self.nodes:
            if known is not None:
                known.task.cancel()
            pod = self._pods[key] = _Pod(
                thing, self.script(thing), self._address(thing), self._started(thing)
            )
            pod.hear(thing, self._clock.now())
            pod.task = self._begin(self._live(pod))

    def _started(self, thing: Object) -> float:
        text = thing.get("status", {}).get("startTime")
        return statuses.read(text) if text else self._clock.now()

    def _address(self, thing: Object) -> str:
        """The pod's own if it has one already, else the next that nobody has."""
        taken = {pod.address for pod in self._pods.values()}
        own = thing.get("status", {}).get("podIP")
        return own or next(address for address in self._addresses if address not in taken)

    async def _live(self, pod: "_Pod") -> None:
        """Write what the pod is, as often as that changes, until it is gone."""
        while True:
            try:
                until = await self._write_next(pod)
            except UnavailableError:
                await asyncio.sleep(_AGAIN)
                continue
            except _GoneError:
                return
            await pod.changed_or(self._clock.sleep_until(until))

    async def _write_next(self, pod: "_Pod") -> float:
        """Write how the pod is now, and return when that changes; end it if its time has come."""
        pod.changed.clear()
        now = self._clock.now()
        left = pod.left(now)
        if left is None:
            moment = pod.moment(now)
            if not pod.has_ended:
                await self._write(pod, moment)
            return now + moment.lasts
        if left > 0:
            return now + left
        await self._end(pod)
        raise _GoneError

    async def _write(self, pod: "_Pod", moment: Moment) -> None:
        status = statuses.pod_status(pod.thing, moment, pod.address, pod.started, self._clock.now())
        name, namespace = pod.place
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        with _of_this_pod():
            pod.thing = await self._cluster.patch_status(PODS, name, namespace, patch=patch)

    async def _end(self, pod: "_Pod") -> None:
        """Write how it ended, unless it had ended before, and remove it."""
        if pod.thing["status"].get("phase") == "Running":
            await self._write(pod, Moment("Failed", math.inf, exit_code=KILLED))
        name, namespace = pod.place
        with _of_this_pod():
            await self._cluster.delete(PODS, name, namespace, Deletion(grace=0, uid=pod.uid))


class _GoneError(Exception):
    """Raised when a pod is no longer there, or its name is another's."""


@contextlib.contextmanager
def _of_this_pod() -> Iterator[None]:
    """Tell a pod that is gone from other troubles."""
    try:
        yield
    except (NotFoundError, ConflictError) as problem:
        raise _GoneError from problem
    except InvalidError as problem:
        if [cause.path for cause in problem.causes] != ["metadata.uid"]:
            raise
        raise _GoneError from problem


class _Pod:
    """A pod of ours: as it was last seen, its life, and since when it lives."""

    task: asyncio.Task[None]

    def __init__(self, thing: Object, life: Life, address: str, started: float) -> None:
        self.thing = thing
        self.life: Final = life
        self.address: Final = address
        self.started: Final = started
        self.changed: Final = asyncio.Event()
        self.heard: Final = asyncio.Event()
        self._deleted: float | None = None
        """When its deletion was heard of."""

    @property
    def uid(self) -> str:
        return str(self.thing["metadata"]["uid"])

    @property
    def place(self) -> tuple[str, str]:
        return self.thing["metadata"]["name"], self.thing["metadata"]["namespace"]

    @property
    def has_ended(self) -> bool:
        """What has ended stays so, whoever takes over."""
        return self.thing.get("status", {}).get("phase") in ("Succeeded", "Failed")

    def hear(self, thing: Object, now: float) -> None:
        """Only a deletion matters: everything else about the pod is ours to say."""
        self.thing = thing
        self.heard.set()
        self.heard.clear()
        if "deletionTimestamp" in thing["metadata"]:
            self._deleted = now if self._deleted is None else self._deleted
            self.changed.set()

    def moment(self, now: float) -> Moment:
        return moment_of(self.life, now - self.started, self.thing["spec"].get("restartPolicy", "Always"))

    def left(self, now: float) -> float | None:
        """Seconds until a pod that was deleted is to end; None if it was not deleted."""
        if self._deleted is None:
            return None
        grace = self.thing["metadata"].get("deletionGracePeriodSeconds", 0)
        return self._deleted + min(self.life.dying, float(grace)) - now

    async def changed_or(self, sleep: Coroutine[Any, Any, None]) -> None:
        """Come back after the sleep, or when something changed."""
        tasks = [asyncio.ensure_future(sleep), asyncio.ensure_future(self.changed.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
