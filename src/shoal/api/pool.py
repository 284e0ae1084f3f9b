"""Pool: a set of nodes that somebody owns, and on which terms others may use it."""

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
    "must have matchLabels or matchExpressions; to select everything, say so with matchLabels: {}"
)
_NOT_EMPTY: Final = [
    # The API server drops what it does not know before it looks: of labels that stand beside `matchLabels`
    # instead of in it nothing is left, and nothing selects everything.
    cel_rule(
        "has(self.matchLabels) || has(self.matchExpressions)",
        EMPTY_SELECTOR_MESSAGE,
    )
]


class PoolSpec(View, frozen=True, kw_only=True):
    """Which nodes a pool has and what it shares."""

    node_selector: Annotated[
        LabelSelector | None, description("Nodes of the pool; absent: no node.", validations=_NOT_EMPTY)
    ] = None
    node_resources: Annotated[
        tuple[Annotated[str, msgspec.Meta(extra_json_schema=QUALIFIED_NAME)], ...],
        description("Only nodes that have these resources; with or without a selector."),
    ] = ()
    namespace_selector: Annotated[
        LabelSelector | None,
        description("Namespaces that may call this pool home; absent: all.", validations=_NOT_EMPTY),
    ] = None
    disable_preemption: Annotated[bool, description("Evict nobody to make room in this pool.")] = False
    disable_borrowing: Annotated[bool, description("Do not borrow room from other pools.")] = False
    disable_sharing: Annotated[bool, description("Lend no room to other pools.")] = False
    borrowing_pools: Annotated[
        tuple[str, ...], description("Pools this pool may borrow from; empty: every sharing pool.")
    ] = ()
    queue_policy: Annotated[
        Literal["Priority", "DRF"] | None,
        description("Order of the queue; absent: the scheduler's, else the jobs' own."),
    ] = None
    order: Annotated[
        Literal["PreemptFirst", "BorrowFirst"] | None,
        description("What is tried first when the pool is full."),
    ] = None


Amounts = dict[str, str]
"""Quantities by resource name, as Kubernetes writes them."""


class PoolStatus(View, frozen=True, kw_only=True):
    """What a pool has and how it is used."""

    capacity: Annotated[Amounts, description("What its nodes have.")] = {}
    allocatable: Annotated[Amounts, description("What pods may use of it.")] = {}
    used: Annotated[Amounts, description("What pods use, shared and system included.")] = {}
    shared: Annotated[Amounts, description("What pods of other pools use here.")] = {}
    system: Annotated[Amounts, description("What pods of other schedulers use here.")] = {}
    borrowed: Annotated[Amounts, description("What this pool's pods use elsewhere.")] = {}
    pending: Annotated[Amounts, description("What waiting pods ask for.")] = {}
    free: Annotated[Amounts, description("What nobody uses.")] = {}
    nodes: Annotated[Int32, description("Number of nodes.")] = 0
    pending_pods: Annotated[Int32, description("Number of waiting pods.")] = 0
    cpu: Annotated[str, description("CPUs used of those allocatable, for people.")] = ""
    gpu: Annotated[str, description("GPUs used of those allocatable, for people.")] = ""
    memory: Annotated[str, description("Memory used of that allocatable, for people.")] = ""
    preemption: Annotated[bool, description("Whether pods are evicted to make room.")] = True
    borrowing: Annotated[bool, description("Whether it borrows room.")] = True
    sharing: Annotated[bool, description("Whether it lends room.")] = True
    conditions: Conditions = ()


class Pool(Object, frozen=True, kw_only=True):
    """A pool of nodes."""

    spec: Annotated[
        PoolSpec, description("Which nodes it has and what it shares.", preserve_unknown_fields=True)
    ] = PoolSpec()


def pool_errors(pool: Pool) -> Iterator[FieldError]:
    """All that is wrong with a Pool."""
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
                message = "must be absent: the default pool has all nodes of no other pool"
                yield FieldError(f"spec.{field}", message, ("metadata.name",))
