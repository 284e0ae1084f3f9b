"""How Pools are read, checked and shown."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from shoal.api.fields import FieldError
from shoal.api.kinds import AGE, Column, Kind
from shoal.api.meta import cel_rule
from shoal.api.pool import EMPTY_SELECTOR_MESSAGE, Pool, PoolStatus, pool_errors
from shoal.kinds.pool import TYPE

_NO_SELECTOR: Final = cel_rule(
    "self.metadata.name != 'default' || !has(self.spec) || (!has(self.spec.nodeSelector) && "
    "(!has(self.spec.nodeResources) || size(self.spec.nodeResources) == 0))",
    "the default pool has all nodes of no other pool: nodeSelector and nodeResources must be absent",
)


def _emptied_selector_errors(pool: Mapping[str, Any]) -> Iterator[FieldError]:
    """Refuse selectors that pruning emptied: an empty selector would select everything."""
    spec = pool.get("spec")
    for field in ("nodeSelector", "namespaceSelector"):
        if isinstance(spec, dict) and spec.get(field) == {}:
            yield FieldError(f"spec.{field}", EMPTY_SELECTOR_MESSAGE)


KIND: Final = Kind(
    **msgspec.structs.asdict(TYPE),
    view=Pool,
    errors=pool_errors,
    status=PoolStatus,
    pruned_errors=_emptied_selector_errors,
    columns=(
        Column("Nodes", ".status.nodes", "integer"),
        Column("CPU", ".status.cpu"),
        Column("GPU", ".status.gpu"),
        Column("Memory", ".status.memory"),
        Column("Pending", ".status.pendingPods", "integer"),
        Column("Preempt", ".status.preemption", "boolean"),
        Column("Borrow", ".status.borrowing", "boolean"),
        Column("Share", ".status.sharing", "boolean"),
        AGE,
    ),
    rules=(_NO_SELECTOR,),
)
