"""Kubernetes' kinds that scheduling reads: Node, Pod, Namespace, PriorityClass, PodDisruptionBudget, Job."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec

from shoal.api.fields import FieldError, described, shown
from shoal.api.meta import Condition, Count, Int32, Object, Time, View, metadata_errors
from shoal.api.names import parse_small_int
from shoal.api.podspec import PodSpec, Resources, Template, amount_errors, pod_spec_errors, template_errors
from shoal.api.selectors import LabelSelector, Taint, label_selector_errors

BUILT_IN_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_MAX_INDEXES: Final = 1_000_000
_TERMINAL_CONDITIONS: Final = ("Complete", "SuccessCriteriaMet", "Failed", "FailureTarget")
INDEX_KEY: Final = "batch.kubernetes.io/job-completion-index"


class NodeCondition(Condition, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of a Node, with the time of its last heartbeat."""

    last_heartbeat_time: Time | None = None


class NodeSpec(View, frozen=True, kw_only=True):
    """`spec` of a Node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(View, frozen=True, kw_only=True):
    """`status` of a Node."""

    capacity: Resources = {}
    allocatable: Resources | None = None
    conditions: tuple[NodeCondition, ...] = ()


class Node(Object, frozen=True, kw_only=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def allocatable(self) -> Resources:
        """Resources that pods may use; the whole capacity if the node has no `allocatable`."""
        return self.status.capacity if self.status.allocatable is None else self.status.allocatable

    @property
    def ready(self) -> NodeCondition | None:
        """The Ready condition."""
        return next((c for c in self.status.conditions if c.type == "Ready"), None)


class ContainerStateTerminated(View, frozen=True, kw_only=True):
    """When a container ended."""

    finished_at: Time | None = None


class ContainerState(View, frozen=True, kw_only=True):
    """`state` of a container status."""

    terminated: ContainerStateTerminated | None = None


class ContainerStatus(View, frozen=True, kw_only=True):
    """One entry of `status.containerStatuses`."""

    state: ContainerState = ContainerState()


class PodStatus(View, frozen=True, kw_only=True):
    """`status` of a Pod."""

    phase: str = "Pending"
    nominated_node_name: str = ""
    start_time: Time | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True, kw_only=True):
    """A pod."""

    spec: PodSpec
    status: PodStatus = PodStatus()


class Namespace(Object, frozen=True, kw_only=True):
    """A namespace."""


class PriorityClass(Object, frozen=True, kw_only=True):
    """A PriorityClass."""

    value: Int32
    global_default: bool = False
    preemption_policy: str = ""


class PodDisruptionBudgetSpec(View, frozen=True, kw_only=True):
    """`spec` of a PodDisruptionBudget."""

    selector: LabelSelector | None = None
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None


class PodDisruptionBudgetStatus(View, frozen=True, kw_only=True):
    """`status` of a PodDisruptionBudget."""

    disruptions_allowed: Int32 | None = None
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    """A PodDisruptionBudget: how many of the selected pods may be unavailable at the same time."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


def node_errors(node: Node) -> Iterator[FieldError]:
    """Yield all errors of a Node."""
    yield from metadata_errors(node.metadata)
    for field, amounts in (
        ("capacity", node.status.capacity),
        ("allocatable", node.status.allocatable or {}),
    ):
        yield from amount_errors(amounts, f"status.{field}")


def pod_errors(pod: Pod) -> Iterator[FieldError]:
    """Yield all errors of a Pod."""
    yield from metadata_errors(pod.metadata)
    yield from pod_spec_errors(pod.spec, "spec")


def budget_errors(budget: PodDisruptionBudget) -> Iterator[FieldError]:
    """Yield all errors of a PodDisruptionBudget."""
    yield from metadata_errors(budget.metadata)
    if budget.spec.selector:
        yield from label_selector_errors(budget.spec.selector, "spec.selector")
    for field, amount in (
        ("minAvailable", budget.spec.min_available),
        ("maxUnavailable", budget.spec.max_unavailable),
    ):
        yield from _int_or_percent_errors(amount, f"spec.{field}")
    if budget.spec.min_available is not None and budget.spec.max_unavailable is not None:
        yield FieldError("spec", "must have only one of minAvailable and maxUnavailable")


def _int_or_percent_errors(amount: int | str | None, path: str) -> Iterator[FieldError]:
    if isinstance(amount, str):
        valid = amount.endswith("%") and parse_small_int(amount[:-1]) is not None
    else:
        valid = amount is None or amount >= 0
    if not valid:
        yield FieldError(path, f"must be a number of at least 0 or a percentage, not {described(amount)}")


def object_errors(view: Object) -> Iterator[FieldError]:
    """Yield all errors of an object of which only the metadata is validated."""
    yield from metadata_errors(view.metadata)


class JobSpec(View, frozen=True, kw_only=True):
    """`spec` of a batch Job."""

    template: Template
    parallelism: Count = 1
    completions: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
    completion_mode: Literal["NonIndexed", "Indexed"] = "NonIndexed"
    suspend: bool = False


class JobStatus(View, frozen=True, kw_only=True):
    """`status` of a batch Job."""

    succeeded: Int32 = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True, kw_only=True):
    """A batch Job."""

    spec: JobSpec
    status: JobStatus = JobStatus()

    @property
    def finished(self) -> bool:
        """Whether the Job creates no more pods."""
        return any(c.type in _TERMINAL_CONDITIONS and c.status == "True" for c in self.status.conditions)


def job_errors(job: Job) -> Iterator[FieldError]:
    """Yield all errors of a batch Job."""
    yield from metadata_errors(job.metadata)
    yield from template_errors(job.spec.template, "spec.template")
    if job.spec.completion_mode == "Indexed" and job.spec.completions is None:
        depends_on = ("spec.completions", "spec.completionMode")
        yield FieldError("spec.completions", "is required when completionMode is Indexed", depends_on)
    if job.spec.completion_mode == "Indexed" and (job.spec.completions or 0) > _MAX_INDEXES:
        depends_on = ("spec.completions", "spec.completionMode")
        yield FieldError(
            "spec.completions", f"must be at most {_MAX_INDEXES} when completionMode is Indexed", depends_on
        )
    for field, text in (
        ("completedIndexes", job.status.completed_indexes),
        ("failedIndexes", job.status.failed_indexes or ""),
    ):
        if not _is_index_list(text):
            yield FieldError(f"status.{field}", f"must be indices such as 0-2,5, not '{shown(text)}'")


def _is_index_list(text: str) -> bool:
    ends = (end for part in filter(None, text.split(",")) for end in part.split("-", 1))
    return all(parse_small_int(end) is not None for end in ends)
