"""Pool: a set of nodes with an owner, and the terms on which jobs of other pools may use them."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec

from shoal.api.fields import FieldError
from shoal.api.meta import Conditions, Int32, Object, View, cel_rule, description, metadata_errors
from shoal.api.names import QUALIFIED_NAME, qualified_name_errors
from shoal.api.selectors import LabelSelector, label_selector_errors

POOL_ANNOTATION: Final = "resource.aibee.cn/pool"
DEFAULT_POOL: Final = "default"
EMPTY_SELECTOR_MESSAGE: Final = (
    "must have matchLabels or matchExpressions; to select everything, write matchLabels: {}"
)
_NOT_EMPTY_RULES: Final = [
    # The API server drops unknown fields before it evaluates rules: with labels beside `matchLabels` instead
    # of in it, the selector becomes empty, and an empty selector selects everything.
    cel_rule(
        "has(self.matchLabels) || has(self.matchExpressions)",
        EMPTY_SELECTOR_MESSAGE,
    )
]


class PoolSpec(View, frozen=True, kw_only=True):
    """`spec` of a Pool."""

    node_selector: Annotated[
        LabelSelector | None,
        description("Label selector of the pool's nodes; if absent, no node.", validations=_NOT_EMPTY_RULES),
    ] = None
    node_resources: Annotated[
        tuple[Annotated[str, msgspec.Meta(extra_json_schema=QUALIFIED_NAME)], ...],
        description("Resources that the pool's nodes must have; with or without a selector."),
    ] = ()
    namespace_selector: Annotated[
        LabelSelector | None,
        description(
            "Namespaces whose jobs may use this pool as their own; if absent, all.",
            validations=_NOT_EMPTY_RULES,
        ),
    ] = None
    disable_preemption: Annotated[bool, description("Evict no pods to make room in this pool.")] = False
    disable_borrowing: Annotated[bool, description("Do not borrow resources from other pools.")] = False
    disable_sharing: Annotated[bool, description("Do not lend resources to other pools.")] = False
    borrowing_pools: Annotated[
        tuple[str, ...], description("Pools that this pool may borrow from; if empty, all pools that share.")
    ] = ()
    queue_policy: Annotated[
        Literal["Priority", "DRF"] | None,
        description("Queue order; if absent, the scheduler's, otherwise that of the jobs."),
    ] = None
    order: Annotated[
        Literal["PreemptFirst", "BorrowFirst"] | None,
        description("Whether to preempt or to borrow first when the pool is full."),
    ] = None


Amounts = dict[str, str]
"""Kubernetes quantities by resource name."""


class PoolStatus(View, frozen=True, kw_only=True):
    """`status` of a Pool: its resources and their use."""

    capacity: Annotated[Amounts, description("Capacity of the pool's nodes.")] = {}
    allocatable: Annotated[Amounts, description("Resources of the nodes that pods may use.")] = {}
    used: Annotated[Amounts, description("Requests of pods on the nodes, including shared and system.")] = {}
    shared: Annotated[Amounts, description("Requests of other pools' pods on the nodes.")] = {}
    system: Annotated[Amounts, description("Requests of other schedulers' pods on the nodes.")] = {}
    borrowed: Annotated[Amounts, description("Requests of this pool's pods on nodes of other pools.")] = {}
    pending: Annotated[Amounts, description("Requests of pending pods.")] = {}
    free: Annotated[Amounts, description("Allocatable resources that are not used.")] = {}
    nodes: Annotated[Int32, description("Number of nodes.")] = 0
    pending_pods: Annotated[Int32, description("Number of pending pods.")] = 0
    cpu: Annotated[str, description("CPUs used and allocatable, as text.")] = ""
    gpu: Annotated[str, description("GPUs used and allocatable, as text.")] = ""
    memory: Annotated[str, description("Memory used and allocatable, as text.")] = ""
    preemption: Annotated[bool, description("Whether pods may be evicted to make room.")] = True
    borrowing: Annotated[bool, description("Whether the pool borrows resources.")] = True
    sharing: Annotated[bool, description("Whether the pool lends resources.")] = True
    conditions: Conditions = ()


class Pool(Object, frozen=True, kw_only=True):
    """A pool of nodes."""

    spec: Annotated[
        PoolSpec, description("Nodes of the pool, and how it shares them.", preserve_unknown_fields=True)
    ] = PoolSpec()


def pool_errors(pool: Pool) -> Iterator[FieldError]:
    """Yield all errors of a Pool."""
    yield from metadata_errors(pool.metadata)
    spec = pool.spec
    if spec.node_selector:
        yield from label_selector_errors(spec.node_selector, "spec.nodeSelector")
    if spec.namespace_selector:
        yield from label_selector_errors(spec.namespace_selector, "spec.namespaceSelector")
    for i, name in enumerate(spec.node_resources):
        yield from qualified_name_errors(name, f"spec.nodeResources[{i}]")
    if pool.metadata.name == DEFAULT_POOL:
        for field, value in (("nodeSelector", spec.node_selector), ("nodeResources", spec.node_resources)):
            if value is not None and value != ():
                message = "must be absent: the default pool has all nodes that are in no other pool"
                yield FieldError(f"spec.{field}", message, ("metadata.name",))
