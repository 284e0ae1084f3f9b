"""Views of Pod, Node, Lease, PodDisruptionBudget and Job, as controllers read and write them.

The smaller views in `core` and `batch` are those of scheduling: the cache compares them with their
predecessors to skip updates that change nothing for it, so they must not hold fields that change all the time
(`resourceVersion`, counters in a status). Controllers need exactly these fields, and little of a pod's spec.
What both read is defined once, there; here it is extended.
"""

from collections.abc import Iterable

import msgspec

from shoal.api import core
from shoal.api.conditions import FINISHED_PHASES
from shoal.api.core import (
    JobSpec,
    JobStatus,
    NodeCondition,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from shoal.api.meta import Condition, Int32, ObjectMeta, OwnerReference, Time, View
from shoal.api.selectors import Taint


class ManagedMeta(ObjectMeta, frozen=True, kw_only=True):
    """`metadata` with what controllers need to write an object: its version, its finalizers."""

    resource_version: str = ""
    generation: int = 0
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference of the object's controller."""
        return next((owner for owner in self.owner_references if owner.controller), None)


def has_condition(conditions: Iterable[Condition], kind: str) -> bool:
    """Return whether the condition of a type is True."""
    return any(one.type == kind and one.status == "True" for one in conditions)


# --- pods ---------------------------------------------------------------------------------------------------


class ContainerStateTerminated(core.ContainerStateTerminated, frozen=True, kw_only=True):
    """How a container ended."""

    exit_code: int = 0
    started_at: Time | None = None


class ContainerStateWaiting(View, frozen=True, kw_only=True):
    """Why a container has not started yet."""

    reason: str = ""
    message: str = ""


class ContainerState(core.ContainerState, frozen=True, kw_only=True):
    """`state` of a container status."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(core.ContainerStatus, frozen=True, kw_only=True):
    """One entry of `status.containerStatuses`."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodCondition(Condition, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of a pod, with all its fields: a merge patch of one condition writes the whole list."""

    last_probe_time: Time | None = None
    observed_generation: int | None = None


class ManagedPodSpec(View, frozen=True, kw_only=True):
    """`spec` of a pod, without what only scheduling reads."""

    node_name: str = ""


class ManagedPodStatus(View, frozen=True, kw_only=True):
    """`status` of a pod, with its containers.

    It does not extend the `PodStatus` of scheduling: pods are many and change often, and decoding the start
    time, which controllers do not read, would take an eighth more time.
    """

    phase: str = "Pending"
    reason: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class ManagedPod(View, frozen=True, kw_only=True):
    """A pod."""

    metadata: ManagedMeta
    spec: ManagedPodSpec = ManagedPodSpec()
    status: ManagedPodStatus = ManagedPodStatus()

    @property
    def finished(self) -> bool:
        """Whether its containers have terminated and will not be restarted."""
        return self.status.phase in FINISHED_PHASES

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def active(self) -> bool:
        """Whether it is neither finished nor being deleted."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in FINISHED_PHASES

    @property
    def containers(self) -> tuple[ContainerStatus, ...]:
        """The statuses of all its containers, init containers first."""
        return (*self.status.init_container_statuses, *self.status.container_statuses)

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        return self.has_condition("Ready")

    def has_condition(self, kind: str) -> bool:
        """Return whether the condition of a type is True."""
        return has_condition(self.status.conditions, kind)


class ManagedService(View, frozen=True, kw_only=True):
    """A service: controllers only create and delete it."""

    metadata: ManagedMeta


class ManagedConfigMap(View, frozen=True, kw_only=True):
    """A config map that a controller keeps up to date."""

    metadata: ManagedMeta
    data: dict[str, str] = {}


# --- nodes --------------------------------------------------------------------------------------------------


class NodeTaint(Taint, frozen=True, kw_only=True, omit_defaults=True):
    """A taint of a node, and since when the node has it."""

    time_added: Time | None = None


class ManagedNodeSpec(View, frozen=True, kw_only=True):
    """`spec` of a node, as far as its controller reads it."""

    taints: tuple[NodeTaint, ...] = ()


class ManagedNodeStatus(View, frozen=True, kw_only=True):
    """`status` of a node, as far as its controller reads it."""

    conditions: tuple[NodeCondition, ...] = ()


class ManagedNode(View, frozen=True, kw_only=True):
    """A node."""

    metadata: ManagedMeta
    spec: ManagedNodeSpec = ManagedNodeSpec()
    status: ManagedNodeStatus = ManagedNodeStatus()


class LeaseSpec(View, frozen=True, kw_only=True):
    """`spec` of a Lease."""

    renew_time: Time | None = None


class Lease(View, frozen=True, kw_only=True):
    """A Lease: a kubelet renews the one of its node as a heartbeat."""

    metadata: ManagedMeta
    spec: LeaseSpec = LeaseSpec()


# --- disruption budgets -------------------------------------------------------------------------------------


class BudgetCondition(Condition, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of a PodDisruptionBudget, and the generation of the spec that it is about."""

    observed_generation: int = 0


class ManagedBudgetStatus(PodDisruptionBudgetStatus, frozen=True, kw_only=True, omit_defaults=True):
    """`status` of a PodDisruptionBudget. Counters default to None, so that a 0 is written."""

    observed_generation: int | None = None
    disrupted_pods: dict[str, Time] = {}
    current_healthy: Int32 | None = None
    desired_healthy: Int32 | None = None
    expected_pods: Int32 | None = None
    conditions: tuple[BudgetCondition, ...] = ()


class ManagedBudget(View, frozen=True, kw_only=True):
    """A PodDisruptionBudget."""

    metadata: ManagedMeta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: ManagedBudgetStatus = ManagedBudgetStatus()


# --- batch Jobs ---------------------------------------------------------------------------------------------


class ExitCodes(View, frozen=True, kw_only=True):
    """`onExitCodes`: the exit codes that a rule matches."""

    container_name: str | None = None
    operator: str = "In"
    values: tuple[int, ...] = ()


class ConditionPattern(View, frozen=True, kw_only=True):
    """One entry of `onPodConditions`: a pod condition that a rule matches."""

    type: str
    status: str = "True"


class FailureRule(View, frozen=True, kw_only=True):
    """A rule for failed pods. Its action is Ignore, FailJob, FailIndex or Count."""

    action: str
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[ConditionPattern, ...] = ()


class FailurePolicy(View, frozen=True, kw_only=True):
    """`podFailurePolicy`: the first rule that matches a pod applies."""

    rules: tuple[FailureRule, ...] = ()


class SuccessRule(View, frozen=True, kw_only=True):
    """The indexes that have to succeed, how many of them, or both."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(View, frozen=True, kw_only=True):
    """`successPolicy`: the Job succeeds when any rule is met."""

    rules: tuple[SuccessRule, ...] = ()


class ManagedJobSpec(JobSpec, frozen=True, kw_only=True):
    """`spec` of a Job, with its limits and policies."""

    parallelism: int = 1
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    pod_failure_policy: FailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    managed_by: str | None = None


class UncountedPods(View, frozen=True, kw_only=True, omit_defaults=True):
    """`uncountedTerminatedPods`: uids of pods that are recorded here and may still have their finalizer."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobCondition(Condition, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of a Job."""

    last_probe_time: Time | None = None


class ManagedJobStatus(JobStatus, frozen=True, kw_only=True, omit_defaults=True):
    """`status` of a Job, with all counters."""

    conditions: tuple[JobCondition, ...] = ()
    active: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    uncounted_terminated_pods: UncountedPods = UncountedPods()

    def true_condition(self, kind: str) -> JobCondition | None:
        """Return the condition of a type if it is True."""
        return next((one for one in self.conditions if one.type == kind and one.status == "True"), None)


class ManagedJob(View, frozen=True, kw_only=True):
    """A batch Job."""

    metadata: ManagedMeta
    spec: ManagedJobSpec
    status: ManagedJobStatus = ManagedJobStatus()

    @property
    def indexed(self) -> bool:
        """Whether each pod has a completion index."""
        return self.spec.completion_mode == "Indexed"

    @property
    def completions(self) -> int:
        """Number of successes needed; of an Indexed Job also the number of indexes."""
        return self.spec.completions if self.spec.completions is not None else 1

    @property
    def size(self) -> int:
        """Number of pods that it wants to have active at the same time."""
        parallelism = self.spec.parallelism
        return parallelism if self.spec.completions is None else min(parallelism, self.spec.completions)

    @property
    def restarts_containers(self) -> bool:
        """Whether failed containers are restarted in their pod."""
        return bool(self.spec.template.get("spec", {}).get("restartPolicy") == "OnFailure")

    @property
    def terminal_condition(self) -> JobCondition | None:
        """The Complete or Failed condition of a finished Job."""
        return self.status.true_condition("Complete") or self.status.true_condition("Failed")
