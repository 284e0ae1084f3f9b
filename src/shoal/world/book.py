"""Book: one Shape, one Identity, one Blueprint for all pods that are alike.

What a pod asks for is worked out from its spec here, once for each different spec.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from shoal.api.names import small_number
from shoal.api.podspec import (
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
    decode_template,
    host_ports,
    limits,
    requests,
)
from shoal.api.pool import POOL_ANNOTATION
from shoal.api.selectors import LabelRequirement, LabelSelector
from shoal.scheduling.reasons import Reason
from shoal.scheduling.resources import asked
from shoal.scheduling.shape import Identity, NeighbourTerm, NodeRules, Shape, SpreadTerm

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
GANG: Final = "shoal.io/gang"
GANG_MIN: Final = "shoal.io/gang-min"

T = TypeVar("T")


class Blueprint(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What pods of one make have in common."""

    shape: Shape
    identity: Identity
    scheduler: str = ""
    priority: int | None = None
    priority_class: str = ""
    patient: bool = False
    pool: str = ""
    gang: str = ""
    gang_min: int = 0
    held: Reason | None = None


class Book:
    """Keeps one of each."""

    def __init__(self) -> None:
        """Begin empty; namespaces are needed for terms that select pods by them."""
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._entries: dict[Hashable, Any] = {}
        self._templates: dict[int, tuple[object, Blueprint]] = {}

    def template(self, namespace: str, raw: Mapping[str, Any]) -> Blueprint:
        """The blueprint of a template; the same template is read once."""
        if id(raw) not in self._templates:
            template = decode_template(raw, "template")
            meta = template.metadata
            blueprint = self.blueprint(namespace, meta.labels, meta.annotations, template.spec)
            self._templates[id(raw)] = (raw, blueprint)
        return self._templates[id(raw)][1]

    def blueprint(
        self, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str], spec: PodSpec
    ) -> Blueprint:
        """The blueprint of pods with this spec."""
        gang = annotations.get(GANG, "")
        gang_min, complaint = _gang_min(annotations.get(GANG_MIN, "") if gang else "")
        identity = self._identity(namespace, labels)
        return Blueprint(
            shape=self._shape(identity, spec),
            identity=identity,
            scheduler=spec.scheduler_name,
            priority=spec.priority,
            priority_class=spec.priority_class_name,
            patient=spec.preemption_policy == "Never",
            pool=annotations.get(POOL_ANNOTATION, ""),
            gang=gang,
            gang_min=gang_min,
            held=complaint or _held(spec),
        )

    def _one(self, key: Hashable, value: T) -> T:
        kept: T = self._entries.setdefault(key, value)
        return kept

    def _identity(self, namespace: str, labels: Mapping[str, str]) -> Identity:
        return self._one((Identity, namespace, *sorted(labels.items())), Identity(namespace, labels))

    def _shape(self, identity: Identity, spec: PodSpec) -> Shape:
        affinity = spec.affinity
        near = tuple(self._term(term, identity) for term in affinity.pod_affinity.required)
        apart = tuple(self._term(term, identity) for term in affinity.pod_anti_affinity.required)
        spread = tuple(
            self._spread(constraint, identity)
            for constraint in spec.topology_spread_constraints
            if constraint.when_unsatisfiable == "DoNotSchedule"
        )
        shape = Shape(
            requests=asked(requests(spec)),
            limits=asked(limits(spec)),
            nodes=self._rules(spec),
            ports=host_ports(spec),
            near=near,
            apart=apart,
            spread=spread,
        )
        amounts = (tuple(shape.requests.items()), tuple(shape.limits.items()))
        return self._one((amounts, shape.nodes, shape.ports, near, apart, spread), shape)

    def _rules(self, spec: PodSpec) -> NodeRules:
        affinity = spec.affinity.node_affinity.required
        rules = NodeRules(selector=spec.node_selector, affinity=affinity, tolerations=spec.tolerations)
        return self._one((NodeRules, *sorted(spec.node_selector.items()), affinity, spec.tolerations), rules)

    def _term(self, term: PodAffinityTerm, identity: Identity) -> NeighbourTerm:
        selector = _narrowed(
            term.label_selector, identity, In=term.match_label_keys, NotIn=term.mismatch_label_keys
        )
        namespaces = self._namespaces(term, identity)
        return self._neighbours(term.topology_key, selector, namespaces)

    def _spread(self, constraint: TopologySpreadConstraint, identity: Identity) -> SpreadTerm:
        selector = _narrowed(constraint.label_selector, identity, In=constraint.match_label_keys, NotIn=())
        own = frozenset([identity.namespace])
        spread = SpreadTerm(
            term=self._neighbours(constraint.topology_key, selector, own),
            max_skew=constraint.max_skew,
            min_domains=constraint.min_domains or 1,
            honour_affinity=constraint.node_affinity_policy == "Honor",
            honour_taints=constraint.node_taints_policy == "Honor",
        )
        return self._one(msgspec.structs.astuple(spread), spread)

    def _neighbours(
        self, key: str, selector: LabelSelector | None, namespaces: frozenset[str] | None
    ) -> NeighbourTerm:
        requirements = selector.requirements() if selector else None
        return self._one(
            (NeighbourTerm, key, requirements, namespaces), NeighbourTerm(key, selector, namespaces)
        )

    def _namespaces(self, term: PodAffinityTerm, identity: Identity) -> frozenset[str] | None:
        """Whose pods a term speaks of: the own namespace's, unless it says otherwise; None: everybody's."""
        selector = term.namespace_selector
        if selector is None:
            return frozenset(term.namespaces or [identity.namespace])
        if not selector.requirements():
            return None
        chosen = (name for name, labels in self.namespaces.items() if selector.matches(labels))
        return frozenset([*term.namespaces, *chosen])


def _narrowed(
    selector: LabelSelector | None, identity: Identity, **keys: tuple[str, ...]
) -> LabelSelector | None:
    """A selector with the pod's own values of some labels required, or refused."""
    extra = tuple(
        LabelRequirement(key=key, operator=operator, values=(identity.labels[key],))  # type: ignore[arg-type]
        for operator, names in keys.items()
        for key in names
        if key in identity.labels
    )
    if selector is None or not extra:
        return selector
    return msgspec.structs.replace(selector, match_expressions=selector.match_expressions + extra)


def _gang_min(text: str) -> tuple[int, Reason | None]:
    number = small_number(text or "0")
    if number is not None:
        return number, None
    return 0, Reason("Held", f"annotation {GANG_MIN} must be a whole number, not '{text[:20]}'")


def _held(spec: PodSpec) -> Reason | None:
    if spec.scheduling_gates:
        return Reason("Held", "its scheduling gates are not open yet")
    if spec.resource_claims:
        return Reason("Held", "it asks for resource claims (DRA), which are not understood")
    return None
