"""The elector: acquires the Lease, renews it, and releases it.

    async with electing(Elector(cluster, leadership, options, identity="a")):
        await leadership.begun()
        ...  # lead, until `leadership.ended()`

While another manager holds the Lease it is watched: a release is seen at once, and so is each renewal.
Every request is bounded in time, and every write names the version that was observed: of two managers that
find the Lease expired one gets it, and the other a conflict. The Lease is read again after any failure, since
the write may have been executed.
"""

import asyncio
import contextlib
import logging
import random
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from shoal.cluster.errors import AlreadyExistsError, ClusterError, ConflictError, GoneError, NotFoundError
from shoal.cluster.port import Cluster, Selector
from shoal.cluster.resources import LEASES, Object
from shoal.election.leadership import Leadership, steady_time
from shoal.election.lease import JITTER, LeaseOptions, ObservedLease

_LOG: Final = logging.getLogger(__name__)
_MIN_WAIT: Final = 0.001


def make_identity() -> str:
    """Return a holder identity that no other manager has, and that names the machine or the pod."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Elector:
    """Keeps the Lease for one manager, and tells its leadership until when it is valid."""

    def __init__(  # noqa: PLR0913 - the last three have defaults
        self,
        cluster: Cluster,
        leadership: Leadership,
        options: LeaseOptions,
        identity: str,
        *,
        now: Callable[[], float] = steady_time,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        """`now` is the clock of the leadership; `clock` gives the times that are written, for people."""
        self._cluster: Final = cluster
        self._leadership: Final = leadership
        self._options: Final = options
        self._now, self._clock = now, clock
        self._rng: Final = rng or random.Random()  # noqa: S311 - no secrets
        self._lease: Final = ObservedLease(identity, options)
        self._must_read = True
        self._error = ""

    async def run(self) -> None:
        """Acquire the Lease and renew it, until it is lost."""
        name = self._options.full_name
        try:
            await self._acquire()
            _LOG.info("lease %s: acquired by %s: leading", name, self._lease.identity)
            reason = await self._renew()
        except Exception:  # noqa: BLE001 - a bug: it would neither lead nor stand by, for ever
            _LOG.exception("lease %s: the leader election failed", name)
            reason = "the leader election failed"
        self._leadership.end(reason)
        _LOG.error("lease %s: lost: %s", name, reason)

    async def release(self) -> None:
        """End the leadership, then leave the Lease to another manager at once.

        If a write got no answer it may still take effect: then the Lease is left to expire.
        """
        self._leadership.end("the lease was released")
        name = self._options.full_name
        if self._leadership.unanswered_within(self._options.duration):
            _LOG.warning("lease %s: not released: a write got no answer", name)
            return
        try:
            async with asyncio.timeout(self._options.renew_deadline):
                await self._read()
                if self._lease.is_held_by_me:
                    await self._cluster.update(LEASES, self._lease.released(self._clock()))
                    _LOG.info("lease %s: released", name)
        except (ClusterError, TimeoutError) as error:
            _LOG.warning("lease %s: cannot be released: %s", name, _message(error))

    # --- standing by --------------------------------------------------------------------------------------

    async def _acquire(self) -> None:
        while not self._leadership.has_begun:
            try:
                await self._read()
                if self._lease.takeable_at <= self._now():
                    await self._write()
                else:
                    await self._follow()
            except (ClusterError, TimeoutError) as error:
                self._report("cannot be acquired", error)
                await self._pause()

    async def _follow(self) -> None:
        """Watch the Lease until it may be taken, or the watch ends."""
        selector = Selector(namespace=self._options.namespace, fields=f"metadata.name={self._options.name}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._wait()) as timeout:
                async with self._cluster.watch(
                    LEASES, selector, version=self._lease.version, timeout=self._options.duration
                ) as events:
                    self._recovered()
                    async for event in events:
                        if event.type == "BOOKMARK":
                            continue
                        self._observe(event.object if event.type != "DELETED" else None)
                        timeout.reschedule(asyncio.get_running_loop().time() + self._wait())
            await self._pause()

    def _wait(self) -> float:
        """Seconds until the Lease may be taken, if it does not change before; never so few that none pass."""
        return max(self._lease.takeable_at - self._now(), _MIN_WAIT)

    # --- leading ------------------------------------------------------------------------------------------

    async def _renew(self) -> str:
        """Renew the Lease until it is lost, and return why."""
        while self._leadership.is_held:
            await self._pause()
            try:
                if self._must_read:
                    await self._read()
                if self._lease.holder and not self._lease.is_held_by_me:
                    return f"it is held by {self._lease.holder}"
                await self._write()
            except (ClusterError, TimeoutError) as error:
                self._report("cannot be renewed", error)
        return f"it was not renewed within {self._options.renew_deadline:g} s"

    # --- requests -----------------------------------------------------------------------------------------

    async def _read(self) -> None:
        async with self._request():
            try:
                found = await self._cluster.get(LEASES, self._options.name, self._options.namespace)
            except NotFoundError:
                self._observe(None)
            else:
                self._observe(found)
            self._must_read = False

    async def _write(self) -> None:
        """Write the Lease with this manager as holder, and extend the leadership from before the request.

        A write that leaves everything as it is (the wall clock was set back) is no renewal: others do not
        see it.
        """
        sent, body = self._now(), self._lease.held(self._clock())
        write = self._cluster.update if self._lease.version else self._cluster.create
        self._must_read = True
        async with self._request():
            written = await write(LEASES, body)
        if self._lease.observe(written, self._now()):
            self._leadership.extend(sent + self._options.renew_deadline)
        self._must_read = False
        self._recovered()

    @contextlib.asynccontextmanager
    async def _request(self) -> AsyncIterator[None]:
        """Bound the time of a request, so that several fit into the renew deadline."""
        async with asyncio.timeout(max(self._options.retry_period, self._options.renew_deadline / 3)):
            yield

    def _observe(self, lease: Object | None) -> None:
        before = self._lease.holder
        self._lease.observe(lease, self._now())
        known = (before, self._lease.identity, "")
        if not self._leadership.has_begun and self._lease.holder not in known:
            _LOG.info("lease %s: held by %s: standing by", self._options.full_name, self._lease.holder)

    async def _pause(self) -> None:
        await asyncio.sleep(self._options.retry_period * self._rng.uniform(1.0, 1.0 + JITTER))

    # --- log ----------------------------------------------------------------------------------------------

    def _report(self, what: str, error: ClusterError | TimeoutError) -> None:
        """Log a failure, unless it is the same as before, or reading the Lease again resolves it."""
        if isinstance(error, ConflictError | AlreadyExistsError | GoneError):
            return
        if _message(error) != self._error:
            self._error = _message(error)
            _LOG.warning("lease %s: %s: %s", self._options.full_name, what, self._error)

    def _recovered(self) -> None:
        if self._error:
            self._error = ""
            _LOG.info("lease %s: the API server answers again", self._options.full_name)


def _message(error: ClusterError | TimeoutError) -> str:
    return error.message if isinstance(error, ClusterError) else "the API server does not answer in time"


@asynccontextmanager
async def electing(elector: Elector) -> AsyncIterator[None]:
    """Run an elector until the block ends, then release the Lease."""
    task = asyncio.get_running_loop().create_task(elector.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await elector.release()
