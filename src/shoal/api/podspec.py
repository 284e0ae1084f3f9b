"""Pod specs and pod templates: the fields that scheduling reads, resource requests, host ports, validation.

The same view decodes the spec of a pod and the template of any job. A job keeps its template as the mapping
that it was written as, so fields that are not read here reach the pods unchanged.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError, child
from shoal.api.meta import Int32, View
from shoal.api.names import labels_errors, qualified_name_errors
from shoal.api.quantity import NANO, Quantity, format_bytes
from shoal.api.selectors import (
    LabelSelector,
    NodeSelector,
    Toleration,
    label_selector_errors,
    node_selector_errors,
    toleration_errors,
)

Resources = dict[str, Quantity]
"""Amounts by resource name."""

Template = dict[str, Any]
"""A pod template as it was written; `decode_template` decodes it to a view."""

_LEGACY_NAMES: Final = {"alpha.kubernetes.io/nvidia-gpu": "nvidia.com/gpu"}

# Maximum amounts, far above any node: more is taken for a typing error. The engine keeps sums in bounds.
_MAX_CPU: Final = 10**12
_MAX_AMOUNT: Final = 2**50


class ResourceRequirements(View, frozen=True, kw_only=True):
    """Requests and limits of a container or pod."""

    requests: Resources = {}
    limits: Resources = {}


_AmountGetter = Callable[[ResourceRequirements], Resources]
"""Returns the requests or the limits."""


class ContainerPort(View, frozen=True, kw_only=True):
    """A port of a container."""

    container_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    host_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(View, frozen=True, kw_only=True):
    """A container: its resources and ports."""

    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class PodAffinityTerm(View, frozen=True, kw_only=True):
    """A pod (anti-)affinity term: pods that must (or must not) be in the same topology domain."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(View, frozen=True, kw_only=True):
    """Required pod affinity terms; preferred ones do not filter nodes and are ignored."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class NodeAffinity(View, frozen=True, kw_only=True):
    """Required node affinity; preferences do not filter nodes and are ignored."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(View, frozen=True, kw_only=True):
    """Required affinity of a pod to nodes, to other pods and against other pods."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class TopologySpreadConstraint(View, frozen=True, kw_only=True):
    """A topology spread constraint: how evenly pods are distributed over topology domains."""

    max_skew: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    min_domains: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class PodSpec(View, frozen=True, kw_only=True):
    """The fields of a pod spec that scheduling reads."""

    containers: Annotated[tuple[Container, ...], msgspec.Meta(min_length=1)]
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    overhead: Resources = {}
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    host_network: bool = False
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduling_gates: tuple[Any, ...] = ()
    resource_claims: tuple[Any, ...] = ()


class TemplateMeta(View, frozen=True, kw_only=True):
    """`metadata` of a pod template."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PodTemplate(View, frozen=True, kw_only=True):
    """The view of a pod template. Pods are built from the mapping, not from this view."""

    spec: PodSpec
    metadata: TemplateMeta = TemplateMeta()


class HostPort(View, frozen=True, kw_only=True, order=True):
    """A port that a pod occupies on its node."""

    port: int
    protocol: str = "TCP"
    ip: str = ""

    def conflicts(self, other: "HostPort") -> bool:
        """Whether the two ports cannot be on the same node; an empty address means all addresses."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (self.ip == other.ip or "" in (self.ip, other.ip))


def requests(spec: PodSpec) -> dict[str, int]:
    """Effective resource requests of a pod in nano-units, as Kubernetes computes them.

    A missing request defaults to the limit.
    """
    return _pod_total(spec, preferred=lambda r: r.requests, fallback=lambda r: r.limits)


def limits(spec: PodSpec) -> dict[str, int]:
    """Effective resource limits of a pod in nano-units, by the same rule.

    A missing limit defaults to the request.
    """
    return _pod_total(spec, preferred=lambda r: r.limits, fallback=lambda r: r.requests)


def _pod_total(spec: PodSpec, *, preferred: _AmountGetter, fallback: _AmountGetter) -> dict[str, int]:
    """Total of a pod; a container's `fallback` amounts count where it has no `preferred` ones.

    It is the larger of all containers together with the sidecars, and of any step of the initialisation.
    Preferred pod-level amounts override it; fallback ones count for resources that no container names. The
    overhead is added.
    """

    def amounts(resources: ResourceRequirements) -> dict[str, int]:
        return to_nano(fallback(resources)) | to_nano(preferred(resources))

    running = _sum(*(amounts(container.resources) for container in spec.containers))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.init_containers:
        own = amounts(container.resources)
        if container.restart_policy == "Always":
            sidecars, own = _sum(sidecars, own), {}
        peak |= _sum(sidecars, own)
    pod_level = spec.resources
    total = to_nano(fallback(pod_level)) | (_sum(running, sidecars) | peak) | to_nano(preferred(pod_level))
    return dict(_sum(total, to_nano(spec.overhead)))


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Ports that a pod occupies on its node; with hostNetwork, all ports of its containers."""
    found = set()
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                ip = "" if port.host_ip in ("0.0.0.0", "::") else port.host_ip  # noqa: S104 - compared, not bound
                found.add(HostPort(port=number, protocol=port.protocol or "TCP", ip=ip))
    return tuple(sorted(found))


def canonical_name(resource: str) -> str:
    """Return the current name of a resource that may be given by a legacy name."""
    return _LEGACY_NAMES.get(resource, resource)


def is_extended(resource: str) -> bool:
    """Whether a resource is an extended resource, such as `nvidia.com/gpu`; its amounts are integers."""
    return "/" in resource


def is_gpu(resource: str) -> bool:
    """Whether a resource is GPUs of any vendor."""
    return resource.endswith("/gpu")


def decode_template(raw: Mapping[str, Any], path: str) -> PodTemplate:
    """Decode and validate a template; InvalidObjectError has all errors."""
    return decode(PodTemplate, raw, path, lambda template: _template_view_errors(template, path))


def template_errors(raw: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return all errors of a template.

    A job is validated with each change of its status, and its templates never change: that a template is
    valid is remembered by its text.
    """
    return [] if _is_valid(msgspec.json.encode(raw)) else _template_errors(raw, path)


@functools.lru_cache(maxsize=256)
def _is_valid(template: bytes) -> bool:
    return not _template_errors(msgspec.json.decode(template), "")


def _template_errors(raw: Mapping[str, Any], path: str) -> list[FieldError]:
    try:
        decode_template(raw, path)
    except InvalidObjectError as problem:
        return problem.errors
    return []


def _template_view_errors(template: PodTemplate, path: str) -> Iterator[FieldError]:
    yield from labels_errors(template.metadata.labels, f"{path}.metadata.labels")
    yield from pod_spec_errors(template.spec, f"{path}.spec")


def pod_spec_errors(spec: PodSpec, path: str) -> Iterator[FieldError]:
    """Yield errors of values that have the right type."""
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers):
            yield from resource_errors(container.resources, f"{path}.{field}[{i}].resources")
    yield from resource_errors(spec.resources, f"{path}.resources")
    yield from amount_errors(spec.overhead, f"{path}.overhead")
    yield from labels_errors(spec.node_selector, f"{path}.nodeSelector")
    yield from toleration_errors(spec.tolerations, f"{path}.tolerations")
    yield from _affinity_errors(spec.affinity, f"{path}.affinity")
    for i, constraint in enumerate(spec.topology_spread_constraints):
        if constraint.label_selector:
            where = f"{path}.topologySpreadConstraints[{i}].labelSelector"
            yield from label_selector_errors(constraint.label_selector, where)


def resource_errors(resources: ResourceRequirements, path: str) -> Iterator[FieldError]:
    """Yield errors for invalid amounts and for requests above their limits."""
    yield from amount_errors(resources.requests, f"{path}.requests")
    yield from amount_errors(resources.limits, f"{path}.limits")
    for name, amount in resources.requests.items():
        limit = resources.limits.get(name)
        if limit is not None and amount.nano > limit.nano:
            where = child(f"{path}.requests", name)
            yield FieldError(where, "must not be more than the limit", (where, child(f"{path}.limits", name)))


def amount_errors(amounts: Resources, path: str) -> Iterator[FieldError]:
    """Yield errors for invalid resource names and for amounts that no node can have."""
    for name, amount in amounts.items():
        where = child(path, name)
        yield from qualified_name_errors(name, where, depends_on=(path,))
        if is_extended(name) and amount.nano % NANO:
            yield FieldError(where, "must be a whole number")
        maximum = _MAX_CPU if name == "cpu" else _MAX_AMOUNT
        if amount.nano > maximum * NANO:
            yield FieldError(
                where, f"must be at most {format_bytes(maximum)}, which is more than any node has"
            )


def _affinity_errors(affinity: Affinity, path: str) -> Iterator[FieldError]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if affinity.node_affinity.required:
        yield from node_selector_errors(affinity.node_affinity.required, f"{path}.nodeAffinity.{required}")
    for field, group in (
        ("podAffinity", affinity.pod_affinity),
        ("podAntiAffinity", affinity.pod_anti_affinity),
    ):
        for i, term in enumerate(group.required):
            where = f"{path}.{field}.{required}[{i}]"
            if not term.topology_key:
                yield FieldError(f"{where}.topologyKey", "is required")
            for name, selector in (
                ("labelSelector", term.label_selector),
                ("namespaceSelector", term.namespace_selector),
            ):
                if selector:
                    yield from label_selector_errors(selector, f"{where}.{name}")


def to_nano(amounts: Resources) -> dict[str, int]:
    """Convert amounts to nano-units; of a resource given by two names, the larger amount counts."""
    nano: dict[str, int] = {}
    for name, amount in amounts.items():
        nano[canonical_name(name)] = max(nano.get(canonical_name(name), 0), amount.nano)
    return nano


def _sum(*parts: Mapping[str, int]) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return total
