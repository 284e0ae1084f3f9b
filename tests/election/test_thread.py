"""The elector in its own thread: a blocked event loop delays no renewal."""

import threading
from typing import Any

import pytest

from shoal.cluster.errors import ConflictError, NotFoundError, UnavailableError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Object
from shoal.election.elector import Elector
from shoal.election.leadership import Leadership, NotLeaderError
from shoal.election.lease import LeaseOptions
from shoal.election.thread import electing_in_thread
from tests.k8s.processes import TIMEOUT

OPTIONS = LeaseOptions(duration=3600, renew_deadline=3000, retry_period=0.001)
RENEWALS = 5


class LeaseStore:
    """A cluster with one Lease, for calls from any thread."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.version = 0
        self.threads: set[str] = set()
        self.renewed = threading.Event()

    async def get(self, *_: object) -> Object:
        if self.lease is None:
            raise NotFoundError("no lease")
        return self.lease

    async def create(self, _: object, body: Object) -> Object:
        return self._store(body)

    async def update(self, _: object, body: Object) -> Object:
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise ConflictError("changed")
        return self._store(body)

    async def close(self) -> None:
        self.threads.add(threading.current_thread().name)

    def _store(self, body: Object) -> Object:
        self.version += 1
        self.lease = body | {"metadata": {"uid": "u", "resourceVersion": str(self.version)}}
        if self.version > RENEWALS:
            self.renewed.set()
        return self.lease


async def test_a_blocked_event_loop_delays_no_renewal() -> None:
    store: Any = LeaseStore()
    leadership = Leadership()

    def elector(cluster: Cluster) -> Elector:
        return Elector(cluster, leadership, OPTIONS, "me")

    async with electing_in_thread(lambda: store, elector, leadership):
        await leadership.begun()
        assert store.renewed.wait(TIMEOUT), "this blocks the event loop"
        leadership.check()
    assert store.lease["spec"]["holderIdentity"] == ""
    assert store.threads == {"elector"}
    with pytest.raises(NotLeaderError, match="released"):
        leadership.check()


async def test_a_failure_of_the_thread_ends_the_leadership() -> None:
    leadership = Leadership()

    def connect() -> Cluster:
        raise UnavailableError("no way")

    async with electing_in_thread(connect, lambda _: pytest.fail("not reached"), leadership):
        assert await leadership.ended() == "the leader election failed"
    assert not leadership.is_held
