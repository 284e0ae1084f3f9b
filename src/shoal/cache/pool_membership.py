"""PoolMembership: the pool of each node, and the home pool of each workload."""

from collections.abc import Iterable, Mapping
from typing import Final

from shoal.api.core import Node
from shoal.api.fields import shown
from shoal.api.podspec import canonical_name
from shoal.api.pool import DEFAULT_POOL, Pool
from shoal.engine import snapshot
from shoal.engine.nodes import Nodes
from shoal.engine.workload import Reason
from shoal.kinds.pod_classes import NAMESPACE_LABEL


class PoolMembership:
    """All pools, including the default pool."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        """`pools` are the Pool objects by name."""
        self._pools = pools
        self._named = {name: pool for name, pool in sorted(pools.items()) if name != DEFAULT_POOL}
        self.names: Final = tuple(sorted({*pools, DEFAULT_POOL}))
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def pool_of(self, node: Node) -> str:
        """The named pool that matches a node; the default pool if no pool matches, or several do."""
        present = {canonical_name(name) for name, amount in node.allocatable.items() if amount.nano}
        matching = [name for name, pool in self._named.items() if _has(pool, node, present)]
        return matching[0] if len(matching) == 1 else DEFAULT_POOL

    def home(self, wanted: str, namespace: str, labels: Mapping[str, str]) -> tuple[int, tuple[Reason, ...]]:
        """The number of a home pool, and a reason if it is not the wanted one."""
        name = wanted or DEFAULT_POOL
        if name == DEFAULT_POOL:
            return self._numbers[name], ()
        if name not in self._numbers:
            return self._default(f"there is no pool {shown(name)}")
        selector = self._pools[name].spec.namespace_selector if name in self._pools else None
        if selector and not selector.matches({NAMESPACE_LABEL: namespace, **labels}):
            return self._default(f"namespace {namespace} may not use pool {name}")
        return self._numbers[name], ()

    def _default(self, problem: str) -> tuple[int, tuple[Reason, ...]]:
        reason = Reason("WaitingForPool", f"{problem}; it is planned in the default pool")
        return self._numbers[DEFAULT_POOL], (reason,)

    def pools(self, nodes: Nodes) -> tuple[snapshot.Pool, ...]:
        """The pools of a snapshot."""
        return tuple(self._pool(name, nodes) for name in self.names)

    def _pool(self, name: str, nodes: Nodes) -> snapshot.Pool:
        pool = self._pools.get(name)
        if pool is None:
            return snapshot.Pool(name=name, span=nodes.span(name), lenders=self._lenders(name, ()))
        spec = pool.spec
        return snapshot.Pool(
            name=name,
            span=nodes.span(name),
            preemption=not spec.disable_preemption,
            borrowing=not spec.disable_borrowing,
            sharing=not spec.disable_sharing,
            lenders=() if spec.disable_borrowing else self._lenders(name, spec.borrowing_pools),
            queue_policy=spec.queue_policy,
            order=spec.order,
        )

    def _lenders(self, borrower: str, allowed: Iterable[str]) -> tuple[int, ...]:
        """Numbers of the pools to borrow from.

        Those that share, and are in `allowed` unless that is empty.
        """
        chosen = set(allowed) or set(self.names)
        return tuple(
            number
            for number, name in enumerate(self.names)
            if name != borrower and name in chosen and self._shares(name)
        )

    def _shares(self, name: str) -> bool:
        return name not in self._pools or not self._pools[name].spec.disable_sharing


def _has(pool: Pool, node: Node, present: set[str]) -> bool:
    """Whether a node matches a pool; a pool without selector and resources matches no node."""
    spec = pool.spec
    if spec.node_selector is None and not spec.node_resources:
        return False
    if spec.node_selector and not spec.node_selector.matches(node.metadata.labels):
        return False
    return all(canonical_name(name) in present for name in spec.node_resources)
