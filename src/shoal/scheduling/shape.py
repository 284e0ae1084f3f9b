"""Shape: what a task asks of a node, and Identity: how other tasks' rules see it.

Tasks that ask for the same share one Shape object, so whatever is worked out for a shape is worked out
once. Shapes and identities are compared by being the same object; whoever makes them keeps one of each, for
as long as somebody has it.
"""

from collections.abc import Mapping

import msgspec

from shoal.api.podspec import HostPort
from shoal.api.selectors import LabelSelector, NodeSelector, Toleration
from shoal.scheduling.resources import PODS


class Identity(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """What rules about neighbouring pods look at."""

    namespace: str
    labels: Mapping[str, str]


class NeighbourTerm(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """Pods of some namespaces (None: all of them) by their labels, within a topology domain."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str] | None

    def matches(self, identity: Identity) -> bool:
        """Whether the term speaks of a pod; without a selector it speaks of none."""
        if self.namespaces is not None and identity.namespace not in self.namespaces:
            return False
        return self.selector is not None and self.selector.matches(identity.labels)


class SpreadTerm(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """How uneven the pods that a term speaks of may lie over its topology domains."""

    term: NeighbourTerm
    max_skew: int
    min_domains: int
    honour_affinity: bool
    honour_taints: bool


class NodeRules(msgspec.Struct, frozen=True, eq=False, kw_only=True, weakref=True):
    """Which nodes a task may use, by their labels and taints; one object for all tasks that say the same."""

    selector: Mapping[str, str] = {}
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()


class Shape(msgspec.Struct, frozen=True, eq=False, kw_only=True, weakref=True):
    """What a task asks of a node; `limits` is the most it may come to use of each resource."""

    requests: Mapping[str, int]
    nodes: NodeRules
    limits: Mapping[str, int] = {}
    ports: tuple[HostPort, ...] = ()
    near: tuple[NeighbourTerm, ...] = ()
    apart: tuple[NeighbourTerm, ...] = ()
    spread: tuple[SpreadTerm, ...] = ()

    @property
    def amounts(self) -> dict[str, int]:
        """What a node must have: the requests, and room for one pod."""
        return {**self.requests, PODS: 1}

    @property
    def minds_neighbours(self) -> bool:
        """Whether a node may stop fitting because of who is there, and not only for want of resources."""
        return bool(self.ports or self.near or self.apart or self.spread)
