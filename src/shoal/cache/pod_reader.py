"""PodReader: decodes pods from JSON straight into records, with a cache of what follows from their specs.

A pod has most of its text in common with the other pods of its job, and with its own earlier versions: spec,
labels, annotations. Decoding and checking these takes most of the time, so they are compared as raw text
first (all of the spec but the node); only an unknown text is decoded.
"""

from typing import Any, Final

import msgspec

from shoal.api.core import Pod, PodStatus
from shoal.api.meta import PartialObjectMeta, View
from shoal.api.names import dns_subdomain_errors
from shoal.api.podspec import PodSpec
from shoal.cache.world import World
from shoal.cluster.resources import Decode, Text
from shoal.kinds.pods import PodRecord, PodTraits, build_record, record_of, traits_of

_KEPT: Final = 4096
"""Size of the decode cache: number of texts."""


class _Metadata(PartialObjectMeta, frozen=True, kw_only=True):
    labels: msgspec.Raw = msgspec.Raw()
    annotations: msgspec.Raw = msgspec.Raw()


class _Outline(View, frozen=True, kw_only=True):
    """A pod of which only the fields are decoded in which similar pods differ."""

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
"""Decodes the node of a spec, and keeps every other field that is read as raw text."""


class PodReader:
    """Decodes pods for a World."""

    def __init__(self, world: World, thorough: Decode[Pod], keep: int = _KEPT) -> None:
        """`thorough` decodes and checks a whole pod; `keep` is the size of the decode cache."""
        self._world, self._thorough, self._keep = world, thorough, keep
        self._known: Final[dict[bytes, PodTraits]] = {}

    def __call__(self, text: Text) -> PodRecord:
        """The record of a pod; InvalidObjectError if the pod is invalid."""
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
        """Decode and check a whole pod, and cache what follows from its text."""
        pod = self._thorough(text)
        found = self._known[key] = traits_of(pod, self._world.pod_classes)
        if len(self._known) > self._keep:
            del self._known[next(iter(self._known))]
        return build_record(pod.metadata, pod.spec.node_name, pod.status, found, self._world.now)
