"""Events: what happened to an object, for people who ask `kubectl describe` about it.

What is said again is counted, not written anew. Many things that differ only in their message are taken
together, and an object that has had much said of it lately is not heard for a while: what it says then is
counted with the next that is written. No Event is worth a failure: one that cannot be written is let go.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Literal, TypeVar

import msgspec

from shoal.api.kinds import DEFAULT_NAMESPACE
from shoal.cluster.errors import AlreadyExistsError, ClusterError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import EVENTS, Object
from shoal.cluster.times import as_text

_LOG: Final = logging.getLogger(__name__)
_REMEMBERED: Final = 4096
"""Of how many objects and sayings the recorder keeps account."""
_BURST: Final = 25
_REFILL: Final = 300.0
"""An object may have so many Events at once, and one more each so many seconds."""
_SIMILAR: Final = 10
_WINDOW: Final = 600.0
"""More messages of one reason than this, each within the window of the one before, are taken together."""
_LONGEST: Final = 1024
_TOGETHER: Final = "(combined from similar events): "

V = TypeVar("V")


class Reference(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object, as an Event names what it is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Something that people should know of an object: it becomes an Event."""

    about: Reference
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


class _Bucket(msgspec.Struct):
    """How many more Events an object may have."""

    left: float
    since: float

    def spend(self, now: float) -> bool:
        self.left = min(self.left + max(now - self.since, 0.0) / _REFILL, _BURST)
        self.since = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class _Kin(msgspec.Struct):
    """What was said of an object for one reason."""

    messages: set[str]
    last: float


class Recorder:
    """Writes notes down as Events."""

    def __init__(self, cluster: Cluster, component: str, clock: Callable[[], float]) -> None:
        """The component is who says so."""
        self._cluster: Final = cluster
        self._component: Final = component
        self._clock: Final = clock
        self._buckets: Final = OrderedDict[str, _Bucket]()
        self._kin: Final = OrderedDict[tuple[str, str, str], _Kin]()
        self._unsaid: Final = OrderedDict[str, int]()
        """How often a thing happened since it was written last, by the name of its Event."""

    async def record(self, note: Note) -> None:
        """Write a note down, or count it."""
        now = self._clock()
        message = self._message(note, now)[:_LONGEST]
        name = self._name(note, message)
        times = _remember(self._unsaid, name, lambda: 0) + 1
        self._unsaid[name] = times
        about = note.about.uid or f"{note.about.kind}/{note.about.namespace}/{note.about.name}"
        if not _remember(self._buckets, about, lambda: _Bucket(_BURST, now)).spend(now):
            return
        try:
            await self._write(note, name, message, times, now)
            self._unsaid.pop(name, None)
        except ClusterError as error:
            _LOG.debug("event %s of %s %s: %s", note.reason, note.about.kind, note.about.name, error)

    def _message(self, note: Note, now: float) -> str:
        kin = _remember(self._kin, (note.about.uid, note.type, note.reason), lambda: _Kin(set(), now))
        if now - kin.last > _WINDOW:
            kin.messages.clear()
        kin.last = now
        if len(kin.messages) < _SIMILAR:
            kin.messages.add(note.message)
        return note.message if note.message in kin.messages else _TOGETHER + note.message

    def _name(self, note: Note, message: str) -> str:
        """The same for the same saying, also after a restart; those taken together have one too."""
        said = _TOGETHER if message.startswith(_TOGETHER) else message
        parts = (self._component, note.about.kind, note.about.uid, note.type, note.reason, said)
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
        return f"{note.about.name[:230]}.{digest}"

    async def _write(self, note: Note, name: str, message: str, times: int, now: float) -> None:
        body = self._body(note, name, message, times, now)
        try:
            await self._cluster.create(EVENTS, body)
        except AlreadyExistsError:
            space = body["metadata"]["namespace"]
            there = await self._cluster.get(EVENTS, name, space)
            again = {
                "count": (there.get("count") or 1) + times,
                "lastTimestamp": as_text(now),
                "message": message,
            }
            await self._cluster.patch(EVENTS, name, space, patch=again)

    def _body(self, note: Note, name: str, message: str, times: int, now: float) -> Object:
        return {
            "metadata": {"name": name, "namespace": note.about.namespace or DEFAULT_NAMESPACE},
            "involvedObject": msgspec.to_builtins(note.about),
            "type": note.type,
            "reason": note.reason,
            "message": message,
            "count": times,
            "firstTimestamp": as_text(now),
            "lastTimestamp": as_text(now),
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }


K = TypeVar("K")


def _remember(memory: OrderedDict[K, V], key: K, new: Callable[[], V]) -> V:
    """What is remembered of a key; what was not thought of for longest is forgotten."""
    if key not in memory:
        memory[key] = new()
        if len(memory) > _REMEMBERED:
            memory.popitem(last=False)
    memory.move_to_end(key)
    return memory[key]
