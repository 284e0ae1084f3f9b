"""Callers of the server: the pods of a job by its token, and users by a token of their own.

Users are identified, and their permissions checked, by the home: in an embedded home there is one user, the
administrator; a Kubernetes cluster is asked with TokenReview and SubjectAccessReview. Its positive answers
count for some seconds.
"""

import asyncio
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec

from shoal.api.registry import Type
from shoal.cluster.object_store import Key
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Object, Resource, Text
from shoal.server.own_requests import own_request

T = TypeVar("T")

Verb = Literal["get", "update"]

_SCHEME: Final = "bearer"
_CACHE_SECONDS: Final = 10.0
_CACHE_SIZE: Final = 4096


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user, as a TokenReview describes one."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class UserAuthority(Protocol):
    """Knows the users of a home, and what they may do."""

    async def identify(self, token: str) -> User | None:
        """Return the user that a token belongs to; None if it is not valid."""

    async def allows(self, user: User, verb: Verb, kind: Type, key: Key) -> bool:
        """Return whether a user may get or update a job."""


def bearer_token(header: str) -> str:
    """Return the token in an Authorization header; "" if there is none."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == _SCHEME else ""


class Administrator:
    """The only user of an embedded home: any request with its token is allowed."""

    def __init__(self, token: str) -> None:
        self._token: Final = token.encode()

    async def identify(self, token: str) -> User | None:
        return User(username="admin") if hmac.compare_digest(token.encode(), self._token) else None

    async def allows(self, user: User, verb: Verb, kind: Type, key: Key) -> bool:  # noqa: ARG002
        return True


# --- Kubernetes ---------------------------------------------------------------------------------------------


def _review(group: str, kind: str, plural: str) -> Resource[Object]:
    def decode(text: Text) -> Object:
        return msgspec.json.decode(text, type=dict[str, Any]).get("status") or {}

    return Resource(group=group, version="v1", kind=kind, plural=plural, namespaced=False, decode=decode)


_TOKEN_REVIEWS: Final = _review("authentication.k8s.io", "TokenReview", "tokenreviews")
_ACCESS_REVIEWS: Final = _review("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews")


class KubernetesUsers:
    """The users of a Kubernetes cluster; its API server answers for them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._users: Final = _RecentAnswers[User](_CACHE_SECONDS)
        self._allowed: Final = _RecentAnswers[bool](_CACHE_SECONDS)

    async def identify(self, token: str) -> User | None:
        digest = hashlib.sha256(token.encode()).digest()  # tokens are not kept
        return await self._users.get(digest, lambda: self._review_token(token))

    async def allows(self, user: User, verb: Verb, kind: Type, key: Key) -> bool:
        question = (user.uid, user.username, user.groups, verb, kind.group, kind.plural, key)
        answer = await self._allowed.get(question, lambda: self._review_access(user, verb, kind, key))
        return bool(answer)

    async def _review_token(self, token: str) -> User | None:
        with own_request("the token cannot be reviewed"):
            status = await self._cluster.create(_TOKEN_REVIEWS, {"spec": {"token": token}})
        return msgspec.convert(status.get("user") or {}, User) if status.get("authenticated") else None

    async def _review_access(self, user: User, verb: Verb, kind: Type, key: Key) -> bool | None:
        attributes = {
            "namespace": key[0],
            "name": key[1],
            "verb": verb,
            "group": kind.group,
            "version": kind.version,
            "resource": kind.plural,
        }
        caller = {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra}
        body = {"spec": {"resourceAttributes": attributes, **caller}}
        with own_request("the permission cannot be reviewed"):
            status = await self._cluster.create(_ACCESS_REVIEWS, body)
        return True if status.get("allowed") else None


class _RecentAnswers(Generic[T]):
    """Positive answers that were given within some seconds; a None is asked for again each time."""

    def __init__(self, seconds: float) -> None:
        self._seconds: Final = seconds
        self._answers: Final[OrderedDict[Hashable, tuple[float, T]]] = OrderedDict()

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[T | None]]) -> T | None:
        """Return the recent answer to a question, or ask."""
        now = asyncio.get_running_loop().time()
        known = self._answers.get(question)
        if known is not None and now - known[0] < self._seconds:
            return known[1]
        answer = await ask()
        self._answers.pop(question, None)
        if answer is not None:
            self._answers[question] = (now, answer)
        if len(self._answers) > _CACHE_SIZE:
            self._answers.popitem(last=False)
        return answer
