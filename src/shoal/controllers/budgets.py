"""The status of PodDisruptionBudgets: how many pods each covers, how many serve, how many may be taken now.

As Kubernetes counts, but for pods whose controller it does not know the size of: there it gives up, here the
pods that such a controller has are taken for all that it wants.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.cluster.events import Note
from shoal.cluster.object_store import Key
from shoal.cluster.resources import BUDGETS, PODS
from shoal.cluster.times import moment, seconds
from shoal.controllers.changes import Changes, PatchStatus, earliest, status_patch
from shoal.controllers.runtime import Controller, Wake
from shoal.controllers.stores import Stores
from shoal.controllers.views import BUDGET, POD, Budget, BudgetCondition, BudgetStatus, Pod, reference
from shoal.kinds.batchjob.views import JOB

_ALLOWED: Final = "DisruptionAllowed"
_UNTIL_DELETED: Final = timedelta(minutes=2)
"""How long a pod that was evicted counts as gone although nobody has deleted it."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A budget, the pods that it covers, and how many pods their controllers want, as far as they say so."""

    budget: Budget
    pods: tuple[Pod, ...] = ()
    sizes: dict[str, int] = {}
    """By the uid of the controller."""


def reconcile(view: View, now: float) -> Changes:
    """What the status of a budget is to say."""
    budget, pods = view.budget, view.pods
    awaited = _awaited(budget, pods, moment(now))
    patch = status_patch(budget.status, _status(view, awaited, now))
    metadata = budget.metadata
    write = PatchStatus(
        resource=BUDGETS,
        name=metadata.name,
        namespace=metadata.namespace,
        patch={"status": patch},
        version=metadata.resource_version,
    )
    return Changes(
        about=reference(BUDGETS, metadata),
        stages=((write,),) if patch else (),
        notes=tuple(_given_up(budget, pods, awaited)),
        again=earliest(*(seconds(time + _UNTIL_DELETED) for time in awaited.values())),
    )


def _awaited(budget: Budget, pods: Sequence[Pod], now: datetime) -> dict[str, datetime]:
    """Pods that were evicted a short while ago, and are still there as if nothing had happened."""
    evicted = budget.status.disrupted_pods
    return {
        name: evicted[name]
        for pod in pods
        if (name := pod.metadata.name) in evicted and not pod.leaving and evicted[name] + _UNTIL_DELETED > now
    }


def _given_up(budget: Budget, pods: Sequence[Pod], awaited: dict[str, datetime]) -> Iterator[Note]:
    """Tell of pods that were evicted and did not go."""
    where = f"{budget.metadata.namespace}/{budget.metadata.name}"
    message = f"Pod was expected by PDB {where} to be deleted but it wasn't"
    for pod in pods:
        name = pod.metadata.name
        if name in budget.status.disrupted_pods and name not in awaited and not pod.leaving:
            about = reference(PODS, pod.metadata)
            yield Note(about=about, reason="NotDeleted", message=message, type="Warning")


# --- counting ----------------------------------------------------------------------------------------------


def _status(view: View, awaited: dict[str, datetime], now: float) -> BudgetStatus:
    budget, pods = view.budget, view.pods
    healthy = sum(pod.ready and not pod.leaving and pod.metadata.name not in awaited for pod in pods)
    expected, desired = _counts(view)
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    return replace(
        budget.status,
        observed_generation=budget.metadata.generation,
        disrupted_pods=awaited,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=_conditions(budget, allowed > 0, now),
    )


def _counts(view: View) -> tuple[int, int]:
    """How many pods there are to be, and how many of them healthy."""
    most, least = view.budget.spec.max_unavailable, view.budget.spec.min_available
    if most is not None:
        expected = _expected(view)
        return expected, max(expected - _amount(most, expected), 0)
    if isinstance(least, str):
        expected = _expected(view)
        return expected, _amount(least, expected)
    return len(view.pods), least or 0


def _expected(view: View) -> int:
    """How many pods their controllers want; those without one are nobody's wish."""
    owners = [owner.uid for pod in view.pods if (owner := pod.metadata.controller)]
    return sum(view.sizes.get(uid, owners.count(uid)) for uid in sorted(set(owners)))


def _amount(amount: int | str, of: int) -> int:
    """A number, or a percentage of pods, rounded up."""
    return -(-int(amount[:-1]) * of // 100) if isinstance(amount, str) else amount


def _conditions(budget: Budget, allowed: bool, now: float) -> tuple[BudgetCondition, ...]:  # noqa: FBT001 - the condition
    status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    old = next((one for one in budget.status.conditions if one.type == _ALLOWED), None)
    since = old.last_transition_time if old and old.status == status else moment(now)
    new = BudgetCondition(
        type=_ALLOWED,
        status=status,
        reason=reason,
        last_transition_time=since,
        observed_generation=budget.metadata.generation,
    )
    return (*(one for one in budget.status.conditions if one.type != _ALLOWED), new)


# --- the controller ----------------------------------------------------------------------------------------


def budget_controller(stores: Stores) -> Controller[View]:
    """The controller of PodDisruptionBudgets."""
    budgets, pods, jobs = stores.of(BUDGET), stores.of(POD), stores.of(JOB)
    pods_in = pods.index(lambda pod: [pod.metadata.namespace])
    budgets_in = budgets.index(lambda budget: [budget.metadata.namespace])
    by_uid = jobs.index(lambda job: [job.metadata.uid])

    def look(key: Key) -> View | None:
        budget = budgets.items.get(key)
        if budget is None:
            return None
        covered = tuple(pod for pod in pods_in[key[0]] if covers(budget, pod))
        owners = {owner.uid for pod in covered if (owner := pod.metadata.controller)}
        sizes = {job.metadata.uid: job.size for uid in owners for job in by_uid[uid]}
        return View(budget=budget, pods=covered, sizes=sizes)

    def covering(pod: Pod) -> Iterator[Key]:
        for budget in budgets_in[pod.metadata.namespace]:
            if covers(budget, pod):
                yield budget.metadata.namespace, budget.metadata.name

    return Controller(
        name="disruption-controller",
        resource=BUDGET,
        look=look,
        reconcile=reconcile,
        wakes=(Wake(resource=POD, keys=covering),),
        size=lambda view: len(pods_in[view.budget.metadata.namespace]),
    )


def covers(budget: Budget, pod: Pod) -> bool:
    """Whether a budget is about a pod; without a selector it is about none, with an empty one about all."""
    selector = budget.spec.selector
    return selector is not None and selector.matches(pod.metadata.labels)
