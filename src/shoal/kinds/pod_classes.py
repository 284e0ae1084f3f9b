"""PodClassCache: one PodClass (and Shape, and Identity) for all pods with the same requirements.

The requirements of a pod are derived from its spec here. Entries are weak references: they stay as long as
they are used.
"""

from collections.abc import Hashable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeVar
from weakref import WeakSet, WeakValueDictionary

import msgspec

from shoal.api.names import parse_small_int
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
from shoal.engine.resources import request_units
from shoal.engine.workload import AffinityTerm, Identity, NodeRules, Reason, Shape, SpreadConstraint

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
GANG: Final = "shoal.io/gang"
GANG_MIN: Final = "shoal.io/gang-min"
GATED: Final = Reason("Held", "its scheduling gates are not open yet")

T = TypeVar("T")


class NamespaceSelection(msgspec.Struct, frozen=True, eq=False):
    """Namespaces of an affinity term: some by name, and those whose labels a selector matches."""

    names: tuple[str, ...]
    selector: LabelSelector


NamespaceSelections = tuple[NamespaceSelection | None, ...]
"""Namespaces of each affinity term; None where the term does not select them by labels."""


class PodClass(msgspec.Struct, frozen=True, eq=False, kw_only=True, weakref=True):
    """What pods with the same template have in common.

    `namespace_selections` has the namespaces of each affinity term, those of pod affinity first, if any term
    selects namespaces by labels: such terms change with the labels. `never_preempts`: preemptionPolicy Never.
    """

    shape: Shape
    identity: Identity
    scheduler: str = ""
    priority: int | None = None
    priority_class: str = ""
    never_preempts: bool = False
    pool: str = ""
    gang: str = ""
    gang_min: int = 0
    held: Reason | None = None
    namespace_selections: NamespaceSelections = ()


class PodClassCache:
    """Deduplicates pod classes and their parts."""

    def __init__(self) -> None:
        """Start empty; `namespaces` has the labels of each namespace, for affinity terms."""
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._entries: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._label_dependent: WeakSet[PodClass] = WeakSet()

    @property
    def depends_on_namespaces(self) -> bool:
        """Whether any pod class depends on the labels of namespaces."""
        return bool(self._label_dependent)

    def of_template(self, namespace: str, raw: Mapping[str, Any]) -> PodClass:
        """The class of a pod template; an equal template is not decoded again."""
        key = ("template", namespace, repr(raw))
        known: PodClass | None = self._entries.get(key)
        if known is not None:
            return self.revised(known)
        template = decode_template(raw, "template")
        meta = template.metadata
        made = self.of_pod_spec(namespace, meta.labels, meta.annotations, template.spec)
        self._entries[key] = made
        return made

    def revised(self, pod_class: PodClass) -> PodClass:
        """The class with its affinity terms resolved against the present labels of namespaces."""
        if not pod_class.namespace_selections:
            return pod_class
        shape = pod_class.shape
        terms = [
            term if selection is None else self._resolved_term(term, selection)
            for term, selection in zip(
                (*shape.pod_affinity, *shape.pod_anti_affinity), pod_class.namespace_selections, strict=True
            )
        ]
        pod_affinity, pod_anti_affinity = (
            tuple(terms[: len(shape.pod_affinity)]),
            tuple(terms[len(shape.pod_affinity) :]),
        )
        if (pod_affinity, pod_anti_affinity) == (shape.pod_affinity, shape.pod_anti_affinity):
            return pod_class
        changed = self._shared_shape(
            msgspec.structs.replace(shape, pod_affinity=pod_affinity, pod_anti_affinity=pod_anti_affinity)
        )
        return self._deduplicated(msgspec.structs.replace(pod_class, shape=changed))

    def of_pod_spec(
        self, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str], spec: PodSpec
    ) -> PodClass:
        """The class of pods with this spec."""
        gang = annotations.get(GANG, "")
        gang_min, complaint = _gang_min(annotations.get(GANG_MIN, "") if gang else "")
        identity = self._identity(namespace, labels)
        made = PodClass(
            shape=self._shape(identity, spec),
            identity=identity,
            scheduler=spec.scheduler_name,
            priority=spec.priority,
            priority_class=spec.priority_class_name,
            never_preempts=spec.preemption_policy == "Never",
            pool=annotations.get(POOL_ANNOTATION, ""),
            gang=gang,
            gang_min=gang_min,
            held=complaint or _held(spec),
            namespace_selections=_namespace_selections(spec),
        )
        return self._deduplicated(made)

    def _deduplicated(self, pod_class: PodClass) -> PodClass:
        kept = self._shared((PodClass, *_parts(pod_class)), pod_class)
        if kept.namespace_selections:
            self._label_dependent.add(kept)
        return kept

    def _shared(self, key: Hashable, value: T) -> T:
        kept: T = self._entries.setdefault(key, value)
        return kept

    def _identity(self, namespace: str, labels: Mapping[str, str]) -> Identity:
        key = (Identity, namespace, *chain.from_iterable(sorted(labels.items())))
        return self._shared(key, Identity(namespace, labels))

    def _shape(self, identity: Identity, spec: PodSpec) -> Shape:
        affinity = spec.affinity
        pod_affinity = tuple(self._term(term, identity) for term in affinity.pod_affinity.required)
        pod_anti_affinity = tuple(self._term(term, identity) for term in affinity.pod_anti_affinity.required)
        spread = tuple(
            self._spread(constraint, identity)
            for constraint in spec.topology_spread_constraints
            if constraint.when_unsatisfiable == "DoNotSchedule"
        )
        shape = Shape(
            requests=request_units(requests(spec)),
            limits=request_units(limits(spec)),
            nodes=self._rules(spec),
            ports=host_ports(spec),
            pod_affinity=pod_affinity,
            pod_anti_affinity=pod_anti_affinity,
            spread=spread,
        )
        return self._shared_shape(shape)

    def _shared_shape(self, shape: Shape) -> Shape:
        amounts = (tuple(shape.requests.items()), tuple(shape.limits.items()))
        return self._shared(
            (amounts, shape.nodes, shape.ports, shape.pod_affinity, shape.pod_anti_affinity, shape.spread),
            shape,
        )

    def _rules(self, spec: PodSpec) -> NodeRules:
        affinity = spec.affinity.node_affinity.required
        rules = NodeRules(selector=spec.node_selector, affinity=affinity, tolerations=spec.tolerations)
        return self._shared(
            (NodeRules, *sorted(spec.node_selector.items()), affinity, spec.tolerations), rules
        )

    def _term(self, term: PodAffinityTerm, identity: Identity) -> AffinityTerm:
        selector = _narrowed(
            term.label_selector, identity, In=term.match_label_keys, NotIn=term.mismatch_label_keys
        )
        namespaces = self._namespaces(term, identity)
        return self._neighbours(term.topology_key, selector, namespaces)

    def _spread(self, constraint: TopologySpreadConstraint, identity: Identity) -> SpreadConstraint:
        selector = _narrowed(constraint.label_selector, identity, In=constraint.match_label_keys, NotIn=())
        own = frozenset([identity.namespace])
        spread = SpreadConstraint(
            term=self._neighbours(constraint.topology_key, selector, own),
            max_skew=constraint.max_skew,
            min_domains=constraint.min_domains or 1,
            honour_affinity=constraint.node_affinity_policy == "Honor",
            honour_taints=constraint.node_taints_policy == "Honor",
        )
        return self._shared(msgspec.structs.astuple(spread), spread)

    def _neighbours(
        self, key: str, selector: LabelSelector | None, namespaces: frozenset[str] | None
    ) -> AffinityTerm:
        requirements = selector.requirements() if selector else None
        return self._shared(
            (AffinityTerm, key, requirements, namespaces), AffinityTerm(key, selector, namespaces)
        )

    def _namespaces(self, term: PodAffinityTerm, identity: Identity) -> frozenset[str] | None:
        """Namespaces of an affinity term: by default that of the pod; None means all."""
        selection = _namespace_selection(term)
        if selection:
            return self._selected(selection)
        return frozenset(term.namespaces or [identity.namespace]) if term.namespace_selector is None else None

    def _resolved_term(self, term: AffinityTerm, selection: NamespaceSelection) -> AffinityTerm:
        return self._neighbours(term.topology_key, term.selector, self._selected(selection))

    def _selected(self, selection: NamespaceSelection) -> frozenset[str]:
        chosen = (name for name, labels in self.namespaces.items() if selection.selector.matches(labels))
        return frozenset([*selection.names, *chosen])


def _parts(pod_class: PodClass) -> Iterator[Hashable]:
    """The parts that distinguish pod classes."""
    *plain, selections = msgspec.structs.astuple(pod_class)
    yield from plain
    yield from (one and (one.names, one.selector.requirements()) for one in selections)


def _namespace_selections(spec: PodSpec) -> NamespaceSelections:
    affinity = spec.affinity
    terms = (*affinity.pod_affinity.required, *affinity.pod_anti_affinity.required)
    selections = tuple(_namespace_selection(term) for term in terms)
    return selections if any(selections) else ()


def _namespace_selection(term: PodAffinityTerm) -> NamespaceSelection | None:
    """The namespace selector of a term; None for an empty one, which selects all namespaces."""
    selector = term.namespace_selector
    return NamespaceSelection(term.namespaces, selector) if selector and selector.requirements() else None


def _narrowed(
    selector: LabelSelector | None, identity: Identity, **keys: tuple[str, ...]
) -> LabelSelector | None:
    """A selector that also requires, or refuses, the pod's own values of some labels."""
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
    number = parse_small_int(text or "0")
    if number is not None:
        return number, None
    return 0, Reason("Held", f"annotation {GANG_MIN} must be a whole number, not '{text[:20]}'")


def _held(spec: PodSpec) -> Reason | None:
    if spec.scheduling_gates:
        return GATED
    if spec.resource_claims:
        return Reason("Held", "it has resource claims (DRA), which are not supported")
    return None
