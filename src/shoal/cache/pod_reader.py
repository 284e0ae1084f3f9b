"""Reads pods straight into records. What was worked out once for a text is not worked out again.

Nearly all that a pod says it has in common with others of its job, and with itself as it was told of last:
what it asks for, its labels, its annotations. To read and check that, and to work out what it comes to, takes
most of the time. So these parts are compared as text first, unread: all of the spec but the node.
"""

from typing import Any, Final

import msgspec

from shoal.api.core import Pod, PodStatus
from shoal.api.meta import Stamp, View
from shoal.api.names import dns_subdomain_errors
from shoal.api.podspec import PodSpec
from shoal.cache.world import World
from shoal.cluster.resources import Decode, Text
from shoal.kinds.pods import PodRecord, PodTraits, build_record, record_of, traits_of

_KEPT: Final = 4096
"""Of how many texts it is remembered what they come to."""


class _Metadata(Stamp, frozen=True, kw_only=True):
    labels: msgspec.Raw = msgspec.Raw()
    annotations: msgspec.Raw = msgspec.Raw()


class _Outline(View, frozen=True, kw_only=True):
    """A pod of which only that is read in which it may differ from others that are alike."""

    metadata: _Metadata
    spec: msgspec.Raw
    status: PodStatus = PodStatus()


_NODE: Final = "node_name"
_OUTLINES: Final = msgspec.json.Decoder(_Outline)
_SPECS: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(
    msgspec.defstruct(
        "_Spec",
        [
            (_NODE, str, ""),
            *((name, msgspec.Raw, msgspec.Raw()) for name in PodSpec.__struct_fields__ if name != _NODE),
        ],
        rename="camel",
    )
)
"""All that is read of a spec, as text; the node is first."""


class PodReader:
    """Reads pods for a world."""

    def __init__(self, world: World, thorough: Decode[Pod], keep: int = _KEPT) -> None:
        """`thorough` reads and checks a whole pod; what the last `keep` texts come to is remembered."""
        self._world, self._thorough, self._keep = world, thorough, keep
        self._known: Final[dict[bytes, PodTraits]] = {}

    def __call__(self, text: Text) -> PodRecord:
        """The record of a pod; InvalidObjectError if it is not right."""
        try:
            outline = _OUTLINES.decode(text)
            node, *parts = msgspec.structs.astuple(_SPECS.decode(outline.spec))
        except msgspec.ValidationError:
            return record_of(self._thorough(text), self._world.pod_classes, self._world.now)
        meta = outline.metadata
        key = b"\0".join((meta.namespace.encode(), meta.labels, meta.annotations, *parts))
        known = self._known.get(key)
        if known is None or not meta.namespace or any(dns_subdomain_errors(meta.name, "")):
            return self._read(text, key)
        return build_record(meta, node, outline.status, known, self._world.now)

    def _read(self, text: Text, key: bytes) -> PodRecord:
        """Read a pod thoroughly, and remember what it comes to."""
        pod = self._thorough(text)
        found = self._known[key] = traits_of(pod, self._world.pod_classes)
        if len(self._known) > self._keep:
            del self._known[next(iter(self._known))]
        return build_record(pod.metadata, pod.spec.node_name, pod.status, found, self._world.now)
