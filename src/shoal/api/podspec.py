"""What a pod asks of a node: the part of a pod spec that scheduling reads, and its arithmetic.

The same view reads a pod's own spec and the template of any job. Everything else in a template is carried
along untouched by whoever holds the template.
"""

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
"""A pod template as it was written; `decode_template` gives the view of it."""

_OTHER_NAMES: Final = {"alpha.kubernetes.io/nvidia-gpu": "nvidia.com/gpu"}

# What no node has: above it an amount is a slip of the keyboard. Sums are kept in bounds by the engine.
_MOST_CPU: Final = 10**12
_MOST: Final = 2**50


class ResourceRequirements(View, frozen=True, kw_only=True):
    """Requests and limits."""

    requests: Resources = {}
    limits: Resources = {}


Amounts = Callable[[ResourceRequirements], Resources]
"""Which of a container's amounts count."""


class ContainerPort(View, frozen=True, kw_only=True):
    """A port of a container."""

    container_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    host_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(View, frozen=True, kw_only=True):
    """A container, as far as it takes room."""

    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class PodAffinityTerm(View, frozen=True, kw_only=True):
    """Pods that this pod must (or must not) share a topology domain with."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(View, frozen=True, kw_only=True):
    """Required terms; preferred ones do not filter and are not read."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class NodeAffinity(View, frozen=True, kw_only=True):
    """The required node selector; preferences do not filter and are not read."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(View, frozen=True, kw_only=True):
    """Where a pod must be, by nodes and by other pods."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class TopologySpreadConstraint(View, frozen=True, kw_only=True):
    """How evenly pods must lie over topology domains."""

    max_skew: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    min_domains: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class PodSpec(View, frozen=True, kw_only=True):
    """What scheduling reads of a pod spec."""

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
    """Metadata that a template gives its pods."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PodTemplate(View, frozen=True, kw_only=True):
    """The view of a pod template; the template itself stays the mapping it came as."""

    spec: PodSpec
    metadata: TemplateMeta = TemplateMeta()


class HostPort(View, frozen=True, kw_only=True, order=True):
    """A port taken on the node itself."""

    port: int
    protocol: str = "TCP"
    ip: str = ""

    def conflicts(self, other: "HostPort") -> bool:
        """Whether both cannot be taken on one node; an empty address means all addresses."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (self.ip == other.ip or "" in (self.ip, other.ip))


def requests(spec: PodSpec) -> dict[str, int]:
    """The room a pod takes, in nano-units, by Kubernetes' rule; limits stand in for missing requests."""
    return _whole(spec, weak=lambda r: r.limits, strong=lambda r: r.requests)


def limits(spec: PodSpec) -> dict[str, int]:
    """The most a pod may use, in nano-units, by the same rule; requests stand in for missing limits."""
    return _whole(spec, weak=lambda r: r.requests, strong=lambda r: r.limits)


def _whole(spec: PodSpec, *, weak: Amounts, strong: Amounts) -> dict[str, int]:
    """What a pod comes to, if `strong` amounts of a container count before its `weak` ones.

    All containers at once, or the hungriest moment of the start; what the whole pod says; the overhead.
    """

    def amounts(resources: ResourceRequirements) -> dict[str, int]:
        return to_nano(weak(resources)) | to_nano(strong(resources))

    running = _sum(*(amounts(container.resources) for container in spec.containers))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.init_containers:
        own = amounts(container.resources)
        if container.restart_policy == "Always":
            sidecars, own = _sum(sidecars, own), {}
        peak |= _sum(sidecars, own)
    whole = spec.resources
    total = to_nano(weak(whole)) | (_sum(running, sidecars) | peak) | to_nano(strong(whole))
    return dict(_sum(total, to_nano(spec.overhead)))


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Ports taken on the node; on the host's network that is every port of the containers."""
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
    """One name for each resource, whatever it used to be called."""
    return _OTHER_NAMES.get(resource, resource)


def is_extended(resource: str) -> bool:
    """Whether a resource is countable hardware that a cluster defines, such as `nvidia.com/gpu`."""
    return "/" in resource


def is_gpu(resource: str) -> bool:
    """Whether a resource is GPUs, of any vendor."""
    return resource.endswith("/gpu")


def decode_template(raw: Mapping[str, Any], path: str) -> PodTemplate:
    """The view of a template, checked; InvalidObjectError with all errors otherwise."""
    return decode(PodTemplate, raw, path, lambda template: _view_errors(template, path))


def template_errors(raw: Mapping[str, Any], path: str) -> list[FieldError]:
    """All that is wrong with a template."""
    try:
        decode_template(raw, path)
    except InvalidObjectError as problem:
        return problem.errors
    return []


def _view_errors(template: PodTemplate, path: str) -> Iterator[FieldError]:
    yield from labels_errors(template.metadata.labels, f"{path}.metadata.labels")
    yield from pod_spec_errors(template.spec, f"{path}.spec")


def pod_spec_errors(spec: PodSpec, path: str) -> Iterator[FieldError]:
    """Complain about what has the right type but cannot be."""
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
    """Complain about impossible amounts, and about requests above their limits."""
    yield from amount_errors(resources.requests, f"{path}.requests")
    yield from amount_errors(resources.limits, f"{path}.limits")
    for name, amount in resources.requests.items():
        limit = resources.limits.get(name)
        if limit is not None and amount.nano > limit.nano:
            where = child(f"{path}.requests", name)
            yield FieldError(where, "must not be more than the limit", (where, child(f"{path}.limits", name)))


def amount_errors(amounts: Resources, path: str) -> Iterator[FieldError]:
    """Complain about names that no resource has and about amounts that no node can have."""
    for name, amount in amounts.items():
        where = child(path, name)
        yield from qualified_name_errors(name, where, needs=(path,))
        if is_extended(name) and amount.nano % NANO:
            yield FieldError(where, "must be a whole number")
        most = _MOST_CPU if name == "cpu" else _MOST
        if amount.nano > most * NANO:
            yield FieldError(where, f"must be at most {format_bytes(most)}, which is more than any node has")


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
    """Amounts in nano-units; a resource given under two names counts once, at the larger amount."""
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
