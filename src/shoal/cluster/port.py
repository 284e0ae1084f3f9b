"""The cluster port: the interface of every implementation of a cluster.

The behaviour is that of a Kubernetes API server; `tests/conformance` describes it in cases and runs them
against every implementation. What callers may rely on:

- Every write has a resourceVersion: a number larger than those of all earlier writes to that resource. A
  write that names a version which is not the current one fails with ConflictError.
- An object without a namespace is in the default namespace: `default`, unless a kubeconfig names another.
- An acknowledged write is durable. Every watch receives every write once and in order, or fails with
  GoneError.
- A status is written separately (`patch_status`), where the resource has one: `update` and `patch` ignore it.
- Objects are JSON. The resource decides what each is decoded to (`PODS.read_as(…)`).
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Final, Generic, Literal, Protocol, TypeVar

import msgspec

from shoal.cluster.errors import ClusterError, GoneError, InvalidError, NotFoundError
from shoal.cluster.resources import Object, Resource

T = TypeVar("T")

Propagation = Literal["Background", "Foreground", "Orphan"]
"""Deletion propagation: dependents are deleted after their owner, before it, or are orphaned."""


class Selector(msgspec.Struct, frozen=True):
    """Selects objects of a resource by namespace (empty: all), labels and fields.

    `labels` and `fields` are selectors as in kubectl: `team=a,tier in (web,db)`, `spec.nodeName=n1`.
    """

    namespace: str = ""
    labels: str = ""
    fields: str = ""


EVERYTHING: Final = Selector()


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list, or all of it.

    `version` is the resourceVersion of the whole list, the same on all its pages: a watch starts from it.
    `next` is the continue token of the next page, empty on the last; `remaining` is the number of objects on
    the pages that follow, if known.
    """

    items: list[T]
    version: str
    next: str = ""
    remaining: int | None = None


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One event of a watch.

    A BOOKMARK has no object: every event up to `version` has been sent. An object that no longer matches the
    selector of the watch is DELETED: in its last matching state, with the resourceVersion of its change.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: T | None
    version: str


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """Options and preconditions of a deletion.

    `grace` is the grace period in seconds; None leaves it to the object, 0 deletes at once. If `uid` or
    `version` is given and the object's is different: ConflictError.
    """

    grace: int | None = None
    propagation: Propagation | None = None
    uid: str = ""
    version: str = ""
    dry_run: bool = False


DEFAULT_DELETION: Final = Deletion()


class Cluster(Protocol):
    """The objects of a cluster. All methods raise ClusterError, and no other exception of their own."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Return one object; NotFoundError if there is none."""

    async def list(
        self, resource: Resource[T], selector: Selector = EVERYTHING, *, limit: int = 0, start: str = ""
    ) -> Page[T]:
        """Return objects, ordered by namespace and name.

        `limit` is the size of a page, 0 for everything; `start` is the `next` of the page before. All pages
        show the cluster at one version. GoneError when that version is no longer available.
        """

    def watch(
        self,
        resource: Resource[T],
        selector: Selector = EVERYTHING,
        *,
        version: str = "",
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Yield the changes after `version`; without a version, first every existing object as ADDED.

        `async with cluster.watch(…) as events: async for event in events: …`. The stream ends after `timeout`
        seconds, or earlier when the cluster ends it: watch again from the last version received. Raises
        GoneError, on entering or later, when the cluster no longer has the changes after that version.
        """

    async def create(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        """Create an object, and return it as stored. `metadata.generateName` gives it a unique name.

        AlreadyExistsError if the name is taken.
        """

    async def update(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        """Replace an object; with `metadata.resourceVersion`, only if that is its current version.

        Some resources require one: InvalidError.
        """

    async def patch(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        """Change parts of an object with a merge patch (RFC 7396: null removes, lists are replaced)."""

    async def patch_status(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        """Change parts of an object's status, through its status subresource."""

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", deletion: Deletion = DEFAULT_DELETION
    ) -> T | None:
        """Delete an object, or mark it for deletion; return it if it still exists, else None.

        It exists as long as it has finalizers; a pod also until its kubelet has stopped it.
        """

    async def bind(self, name: str, namespace: str, node: str, *, uid: str = "") -> None:
        """Bind a pod to a node. ConflictError if it is bound or has another uid; NotFoundError if deleted."""

    async def evict(self, name: str, namespace: str, deletion: Deletion = DEFAULT_DELETION) -> None:
        """Evict a pod; TooManyRequestsError if its disruption budgets do not allow that."""

    async def close(self) -> None:
        """Release all connections, files and tasks. Open watches end, or fail with UnavailableError."""


PAGE_SIZE: Final = 1000
"""Objects per page: a small load for any server, and few pages even for large collections."""


async def list_all(
    cluster: Cluster, resource: Resource[T], selector: Selector = EVERYTHING, *, size: int = PAGE_SIZE
) -> Page[T]:
    """Return all pages of a list as one. If the continue token expires meanwhile, list without pages."""
    items: list[T] = []
    start = ""
    while True:
        try:
            page = await cluster.list(resource, selector, limit=size, start=start)
        except GoneError:
            if not start:
                raise
            return await list_all(cluster, resource, selector, size=0)
        items += page.items
        start = page.next
        if not start:
            return Page(items=items, version=page.version)


class ObjectDeletedError(Exception):
    """Raised when an object was deleted, or deleted and recreated (its uid changed)."""


@contextmanager
def expect_same_object(*also: type[ClusterError]) -> Iterator[None]:
    """Translate errors of a write with a uid: ObjectDeletedError if that object no longer exists.

    `also` lists further errors that mean the same for this write.
    """
    try:
        yield
    except ClusterError as error:
        if isinstance(error, (NotFoundError, *also)) or _is_uid_mismatch(error):
            raise ObjectDeletedError from error
        raise


def _is_uid_mismatch(error: ClusterError) -> bool:
    return isinstance(error, InvalidError) and [cause.path for cause in error.causes] == ["metadata.uid"]
