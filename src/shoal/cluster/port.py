"""The port: what every home of objects can do.

The behaviour is that of a Kubernetes API server; `tests/conformance` says it in cases and holds every home to
it. What a caller may rely on:

- Every write has a version: a number, larger than those of all writes before it to that resource. A write
  that names a version which is no longer the current one is refused with ConflictError.
- An object that says no namespace is in the one that the home means by that: `default`, unless a kubeconfig
  says otherwise.
- An acknowledged write is durable, and every watcher sees every write once, in order, or is told GoneError.
- A status is written apart (`patch_status`), where the resource has one: `update` and `patch` leave it alone.
- Objects are JSON. What is made of one that is read is the resource's choice (`PODS.read_as(…)`).

Whole lists, fetched page by page.

Telling an object that is gone, or whose name is another's by now, from other troubles.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Final, Generic, Literal, Protocol, TypeVar

import msgspec

from shoal.cluster.errors import ClusterError, GoneError, InvalidError, NotFoundError
from shoal.cluster.resources import Object, Resource

T = TypeVar("T")

Propagation = Literal["Background", "Foreground", "Orphan"]
"""What becomes of those that an object owns: they go after it, before it, or stay."""


class Where(msgspec.Struct, frozen=True):
    """Which objects of a resource are meant; without a namespace, those of all.

    Selectors are written as kubectl takes them: `team=a,tier in (web,db)`, `spec.nodeName=n1`.
    """

    namespace: str = ""
    labels: str = ""
    fields: str = ""


EVERYWHERE: Final = Where()


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A part of a list, or all of it.

    `version` is the state of the cluster that the whole list, over all its pages, is of: a watch goes on from
    there. `next` is what to ask for the rest with, empty at the end; `remaining` how much that is, if known.
    """

    items: list[T]
    version: str
    next: str = ""
    remaining: int | None = None


class Event(msgspec.Struct, Generic[T], frozen=True):
    """One change that a watcher is told of.

    A BOOKMARK has no object: it says that everything up to `version` has been told. An object that no longer
    matches the watcher's selectors is DELETED for it: as it last matched, with the version of its change.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: T | None
    version: str


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """How to delete an object, and which one is meant.

    `grace` is in seconds; None leaves it to the object, 0 is at once. An object with another `uid` or
    `version` than is said here is not the one meant: ConflictError.
    """

    grace: int | None = None
    propagation: Propagation | None = None
    uid: str = ""
    version: str = ""
    dry_run: bool = False


AS_USUAL: Final = Deletion()


class Cluster(Protocol):
    """A home of objects. All methods raise ClusterError and nothing else of their own accord."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object; NotFoundError if there is none."""

    async def list(
        self, resource: Resource[T], where: Where = EVERYWHERE, *, limit: int = 0, start: str = ""
    ) -> Page[T]:
        """Objects in the order of namespace and name.

        `limit` asks for a page of that size, and `start` (a page's `next`) for the one after it: all pages
        show one state of the cluster. GoneError when that state is too long ago.
        """

    def watch(
        self,
        resource: Resource[T],
        where: Where = EVERYWHERE,
        *,
        version: str = "",
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[Event[T]]]:
        """What changes after `version`; without one, first all that is there, as ADDED.

        `async with cluster.watch(…) as events: async for event in events: …`. The stream ends by itself
        after `timeout` seconds, or whenever the cluster chooses: watch again from the last version seen.
        Raises GoneError, on entering or on the way, when the cluster no longer knows what came after it.
        """

    async def create(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        """Make an object, and return it as it is kept. `metadata.generateName` gives it a name of its own.

        AlreadyExistsError if the name is taken.
        """

    async def update(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        """Replace an object; with `metadata.resourceVersion`, only if that is still its version.

        Some resources insist on it: InvalidError.
        """

    async def patch(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        """Change parts of an object (RFC 7396: null removes, lists are replaced whole)."""

    async def patch_status(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        """Change parts of an object's status, as the status subresource of Kubernetes does."""

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", how: Deletion = AS_USUAL
    ) -> T | None:
        """Delete an object, or begin to: what it is now if it is still there, else None.

        It stays as long as it has finalizers, or until its node has ended a pod.
        """

    async def bind(self, name: str, namespace: str, node: str, *, uid: str = "") -> None:
        """Give a pod its node. ConflictError if it has one, or is another; NotFoundError if it is gone."""

    async def evict(self, name: str, namespace: str, how: Deletion = AS_USUAL) -> None:
        """Delete a pod as far as its disruption budgets allow; TooManyRequestsError if they do not."""

    async def close(self) -> None:
        """Let go of everything: connections, files, tasks. Streams end, or fail with UnavailableError."""


PAGE: Final = 1000
"""Objects in a page: few enough that no server minds, and many enough that few pages do."""


async def list_all(
    cluster: Cluster, resource: Resource[T], where: Where = EVERYWHERE, *, size: int = PAGE
) -> Page[T]:
    """All pages of one list, as one. If it takes so long that its rest is gone, it is had in one piece."""
    items: list[T] = []
    start = ""
    while True:
        try:
            page = await cluster.list(resource, where, limit=size, start=start)
        except GoneError:
            if not start:
                raise
            return await list_all(cluster, resource, where, size=0)
        items += page.items
        start = page.next
        if not start:
            return Page(items=items, version=page.version)


class VanishedError(Exception):
    """Raised when an object is no longer there, or its name is another's."""


@contextmanager
def of_this_object(*also: type[ClusterError]) -> Iterator[None]:
    """For a write that names a uid: VanishedError if it is not that object; `also` mean the same."""
    try:
        yield
    except ClusterError as problem:
        if isinstance(problem, (NotFoundError, *also)) or _is_another(problem):
            raise VanishedError from problem
        raise


def _is_another(problem: ClusterError) -> bool:
    return isinstance(problem, InvalidError) and [one.path for one in problem.causes] == ["metadata.uid"]
