"""The elector in a thread of its own, with its own event loop and connection.

A long cycle of the scheduler occupies the event loop of the manager, but not this one: Python switches
between threads every few milliseconds.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Final

from shoal.cluster.port import Cluster
from shoal.election.elector import Elector, electing
from shoal.election.leadership import Leadership

_LOG: Final = logging.getLogger(__name__)


@asynccontextmanager
async def electing_in_thread(
    connect: Callable[[], Cluster], make_elector: Callable[[Cluster], Elector], leadership: Leadership
) -> AsyncIterator[None]:
    """Run an elector in a thread until the block ends, then release the Lease.

    `connect` and `make_elector` are called in that thread. If they fail, the leadership ends.
    """
    stop, stopped = Future[None](), Future[None]()

    async def elect() -> None:
        cluster = connect()
        try:
            async with electing(make_elector(cluster)):
                await asyncio.wrap_future(stop)
        finally:
            await cluster.close()

    def run() -> None:
        try:
            asyncio.run(elect())
        except Exception:  # noqa: BLE001 - any failure ends the leadership
            _LOG.exception("the leader election failed")
        finally:
            leadership.end("the leader election failed")  # no effect if it has ended already
            stopped.set_result(None)

    threading.Thread(target=run, name="elector", daemon=True).start()
    try:
        yield
    finally:
        stop.set_result(None)
        await asyncio.wrap_future(stopped)
