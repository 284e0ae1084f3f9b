"""Events: records of what happened to an object, as shown by `kubectl describe`.

A repeated event is counted, not written again. Many events that differ only in their message are combined
into one. An object with many recent events is rate-limited: its further events are counted, and the count is
written with the next one. Events are best effort: one that cannot be written is dropped.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Literal, TypeVar

import msgspec

from shoal.api.kinds import DEFAULT_NAMESPACE
from shoal.cluster.denials import report_denial
from shoal.cluster.errors import AlreadyExistsError, ClusterError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import EVENTS, Object
from shoal.cluster.times import format_time

_LOG: Final = logging.getLogger(__name__)
_MEMORY_SIZE: Final = 4096
"""Number of objects, reasons and events that the recorder remembers."""
_BURST: Final = 25
_REFILL_SECONDS: Final = 300.0
"""Rate limit per object: a burst of events, and one more after each refill time."""
_MAX_MESSAGES: Final = 10
_WINDOW_SECONDS: Final = 600.0
"""If a reason has more messages than this, each within the window of the one before, they are combined."""
_MAX_MESSAGE_LENGTH: Final = 1024
_COMBINED: Final = "(combined from similar events): "

V = TypeVar("V")


class ObjectReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Reference to the object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class ObjectEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of an object, before it is written."""

    regarding: ObjectReference
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


class _TokenBucket(msgspec.Struct):
    """Rate limit of one object: the number of events that it may have now."""

    tokens: float
    since: float

    def take(self, now: float) -> bool:
        self.tokens = min(self.tokens + max(now - self.since, 0.0) / _REFILL_SECONDS, _BURST)
        self.since = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class _Messages(msgspec.Struct):
    """Recent messages of an object with one reason."""

    messages: set[str]
    last: float


class EventRecorder:
    """Writes events of objects."""

    def __init__(self, cluster: Cluster, component: str, clock: Callable[[], float]) -> None:
        """`component` is the source of the events."""
        self._cluster: Final = cluster
        self._component: Final = component
        self._clock: Final = clock
        self._buckets: Final = OrderedDict[str, _TokenBucket]()
        self._recent: Final = OrderedDict[tuple[str, str, str], _Messages]()
        self._pending: Final = OrderedDict[str, int]()
        """Occurrences since an event was last written, by the name of the Event."""

    async def record(self, event: ObjectEvent) -> None:
        """Write an event, or count it."""
        now = self._clock()
        message = self._message(event, now)[:_MAX_MESSAGE_LENGTH]
        name = self._name(event, message)
        count = _lookup(self._pending, name, lambda: 0) + 1
        self._pending[name] = count
        subject = event.regarding
        bucket_key = subject.uid or f"{subject.kind}/{subject.namespace}/{subject.name}"
        if not _lookup(self._buckets, bucket_key, lambda: _TokenBucket(_BURST, now)).take(now):
            return
        try:
            await self._write(event, name, message, count, now)
            self._pending.pop(name, None)
        except ClusterError as error:
            report_denial(error)
            _LOG.debug("event %s of %s %s: %s", event.reason, subject.kind, subject.name, error)

    def _message(self, event: ObjectEvent, now: float) -> str:
        recent = _lookup(
            self._recent, (event.regarding.uid, event.type, event.reason), lambda: _Messages(set(), now)
        )
        if now - recent.last > _WINDOW_SECONDS:
            recent.messages.clear()
        recent.last = now
        if len(recent.messages) < _MAX_MESSAGES:
            recent.messages.add(event.message)
        return event.message if event.message in recent.messages else _COMBINED + event.message

    def _name(self, event: ObjectEvent, message: str) -> str:
        """Return the name of an Event: the same for equal events, and for all combined ones of a reason."""
        text = _COMBINED if message.startswith(_COMBINED) else message
        parts = (self._component, event.regarding.kind, event.regarding.uid, event.type, event.reason, text)
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
        return f"{event.regarding.name[:230]}.{digest}"

    async def _write(self, event: ObjectEvent, name: str, message: str, count: int, now: float) -> None:
        body = self._body(event, name, message, count, now)
        try:
            await self._cluster.create(EVENTS, body)
        except AlreadyExistsError:
            namespace = body["metadata"]["namespace"]
            existing = await self._cluster.get(EVENTS, name, namespace)
            patch = {
                "count": (existing.get("count") or 1) + count,
                "lastTimestamp": format_time(now),
                "message": message,
            }
            await self._cluster.patch(EVENTS, name, namespace, patch=patch)

    def _body(self, event: ObjectEvent, name: str, message: str, count: int, now: float) -> Object:
        return {
            "metadata": {"name": name, "namespace": event.regarding.namespace or DEFAULT_NAMESPACE},
            "involvedObject": msgspec.to_builtins(event.regarding),
            "type": event.type,
            "reason": event.reason,
            "message": message,
            "count": count,
            "firstTimestamp": format_time(now),
            "lastTimestamp": format_time(now),
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }


K = TypeVar("K")


def _lookup(memory: OrderedDict[K, V], key: K, new: Callable[[], V]) -> V:
    """Return the value of a key, a new one if it is not known; the least recently used key is evicted."""
    if key not in memory:
        memory[key] = new()
        if len(memory) > _MEMORY_SIZE:
            memory.popitem(last=False)
    memory.move_to_end(key)
    return memory[key]
