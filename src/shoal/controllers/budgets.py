"""The controller of PodDisruptionBudgets: writes how many pods each covers and how many may be evicted.

It counts as Kubernetes does, with one difference: for pods whose controller has no known size Kubernetes
gives up, while here the pods that such a controller has are taken for all that it wants.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import with_condition
from shoal.api.managed import BudgetCondition, ManagedBudget, ManagedBudgetStatus, ManagedPod
from shoal.cluster.events import ObjectEvent
from shoal.cluster.object_store import Key
from shoal.cluster.resources import BUDGETS, PODS
from shoal.cluster.times import to_datetime, to_seconds
from shoal.controllers.changes import Changes, earliest, patch_status_of, reference_to, status_patch
from shoal.controllers.resources import BUDGET, JOB, POD
from shoal.controllers.runtime import Controller, Watch
from shoal.controllers.stores import Stores

_DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""How long an evicted pod counts as gone although it has not been deleted."""


class BudgetView(msgspec.Struct, frozen=True, kw_only=True):
    """A budget, the pods that it covers, and the sizes of their controllers, as far as they are known."""

    budget: ManagedBudget
    pods: tuple[ManagedPod, ...] = ()
    sizes: dict[str, int] = {}
    """By the uid of the controller."""


def reconcile(view: BudgetView, now: float) -> Changes:
    """Write the status of a budget."""
    budget, pods = view.budget, view.pods
    evicted = _evicted_pods(budget, pods, to_datetime(now))
    patch = status_patch(budget.status, _status(view, evicted, to_datetime(now)))
    return Changes(
        regarding=reference_to(BUDGETS, budget.metadata),
        stages=((patch_status_of(BUDGETS, budget.metadata, patch),),) if patch else (),
        events=tuple(_not_deleted_events(budget, pods, evicted)),
        requeue_at=earliest(*(to_seconds(time + _DELETION_TIMEOUT) for time in evicted.values())),
    )


def _evicted_pods(budget: ManagedBudget, pods: Sequence[ManagedPod], now: datetime) -> dict[str, datetime]:
    """Return pods that were evicted within the timeout and are not being deleted yet."""
    evicted = budget.status.disrupted_pods
    return {
        name: evicted[name]
        for pod in pods
        if (name := pod.metadata.name) in evicted
        and not pod.terminating
        and evicted[name] + _DELETION_TIMEOUT > now
    }


def _not_deleted_events(
    budget: ManagedBudget, pods: Sequence[ManagedPod], evicted: dict[str, datetime]
) -> Iterator[ObjectEvent]:
    """Yield an Event for each evicted pod that was not deleted within the timeout."""
    where = f"{budget.metadata.namespace}/{budget.metadata.name}"
    message = f"Pod was expected by PDB {where} to be deleted but it wasn't"
    for pod in pods:
        name = pod.metadata.name
        if name in budget.status.disrupted_pods and name not in evicted and not pod.terminating:
            yield ObjectEvent(
                regarding=reference_to(PODS, pod.metadata),
                reason="NotDeleted",
                message=message,
                type="Warning",
            )


# --- counting ----------------------------------------------------------------------------------------------


def _status(view: BudgetView, evicted: dict[str, datetime], now: datetime) -> ManagedBudgetStatus:
    budget, pods = view.budget, view.pods
    healthy = sum(pod.ready and not pod.terminating and pod.metadata.name not in evicted for pod in pods)
    expected, desired = _counts(view)
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    condition = BudgetCondition(
        type="DisruptionAllowed",
        status="True" if allowed else "False",
        reason="SufficientPods" if allowed else "InsufficientPods",
        observed_generation=budget.metadata.generation,
    )
    return replace(
        budget.status,
        observed_generation=budget.metadata.generation,
        disrupted_pods=evicted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=with_condition(budget.status.conditions, condition, now),
    )


def _counts(view: BudgetView) -> tuple[int, int]:
    """Return the number of pods expected, and of those that have to be healthy."""
    most, least = view.budget.spec.max_unavailable, view.budget.spec.min_available
    if most is not None:
        expected = _expected(view)
        return expected, max(expected - _amount(most, expected), 0)
    if isinstance(least, str):
        expected = _expected(view)
        return expected, _amount(least, expected)
    return len(view.pods), least or 0


def _expected(view: BudgetView) -> int:
    """Return the number of pods that their controllers want; pods without a controller do not count."""
    owners = [owner.uid for pod in view.pods if (owner := pod.metadata.controller)]
    return sum(view.sizes.get(uid, owners.count(uid)) for uid in sorted(set(owners)))


def _amount(amount: int | str, of: int) -> int:
    """Return a number, or a percentage of pods, rounded up."""
    return -(-int(amount[:-1]) * of // 100) if isinstance(amount, str) else amount


# --- the controller ----------------------------------------------------------------------------------------


def budget_controller(stores: Stores) -> Controller[BudgetView]:
    """Return the controller of PodDisruptionBudgets."""
    budgets, pods, jobs = stores.of(BUDGET), stores.of(POD), stores.of(JOB)
    pods_in = pods.index(lambda pod: [pod.metadata.namespace])
    budgets_in = budgets.index(lambda budget: [budget.metadata.namespace])
    jobs_by_uid = jobs.index(lambda job: [job.metadata.uid])

    def get_view(key: Key) -> BudgetView | None:
        budget = budgets.items.get(key)
        if budget is None:
            return None
        covered = tuple(pod for pod in pods_in[key[0]] if covers(budget, pod))
        owners = {owner.uid for pod in covered if (owner := pod.metadata.controller)}
        sizes = {job.metadata.uid: job.size for uid in owners for job in jobs_by_uid[uid]}
        return BudgetView(budget=budget, pods=covered, sizes=sizes)

    def covering(pod: ManagedPod) -> Iterator[Key]:
        for budget in budgets_in[pod.metadata.namespace]:
            if covers(budget, pod):
                yield budget.metadata.namespace, budget.metadata.name

    return Controller(
        name="disruption-controller",
        resource=BUDGET,
        get_view=get_view,
        reconcile=reconcile,
        watches=(Watch(resource=POD, keys=covering),),
        size=lambda view: len(pods_in[view.budget.metadata.namespace]),
    )


def covers(budget: ManagedBudget, pod: ManagedPod) -> bool:
    """Return whether a budget covers a pod. Without a selector it covers none, with an empty one all."""
    selector = budget.spec.selector
    return selector is not None and selector.matches(pod.metadata.labels)
