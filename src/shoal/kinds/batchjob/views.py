"""What the controller reads of a Job."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from shoal.api.batch import INDEX_KEY
from shoal.api.meta import Condition, Time, View
from shoal.cluster.resources import JOBS
from shoal.controllers.views import Meta, Pod, reader

_PAIR: Final = 2


def index_of(pod: Pod) -> int | None:
    """The index of a pod, if it has one."""
    text = pod.metadata.annotations.get(INDEX_KEY, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None  # noqa: PLR2004 - int32


def written(indexes: Iterable[int]) -> str:
    """Indexes as a status has them: `0-2,5,7,8`."""
    return ",".join(_range(first, last) for first, last in _ranges(sorted(set(indexes))))


def _ranges(ordered: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for place in range(1, len(ordered) + 1):
        if place == len(ordered) or ordered[place] != ordered[place - 1] + 1:
            yield ordered[start], ordered[place - 1]
            start = place


def _range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last - first + 1 == _PAIR else f"{first}-{last}"


class ExitCodes(View, frozen=True, kw_only=True):
    """Which exit codes a rule is about."""

    container_name: str | None = None
    operator: str = "In"
    values: tuple[int, ...] = ()


class ConditionPattern(View, frozen=True, kw_only=True):
    """Which condition of a pod a rule is about."""

    type: str
    status: str = "True"


class FailureRule(View, frozen=True, kw_only=True):
    """What becomes of a pod that failed in some way: Ignore, FailJob, FailIndex or Count."""

    action: str
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[ConditionPattern, ...] = ()


class FailurePolicy(View, frozen=True, kw_only=True):
    """Rules of which the first that matches counts."""

    rules: tuple[FailureRule, ...] = ()


class SuccessRule(View, frozen=True, kw_only=True):
    """Which indexes, or how many of them, are enough."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(View, frozen=True, kw_only=True):
    """Rules of which one is enough."""

    rules: tuple[SuccessRule, ...] = ()


class JobSpec(View, frozen=True, kw_only=True):
    """`spec` of a Job."""

    template: dict[str, Any] = {}
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    pod_replacement_policy: str = "TerminatingOrFailed"
    pod_failure_policy: FailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    managed_by: str | None = None


class Uncounted(View, frozen=True, kw_only=True, omit_defaults=True):
    """Pods whose end is written down, and whose finalizer may not be gone yet; by uid."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobCondition(Condition, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of a Job."""

    last_probe_time: Time | None = None


class JobStatus(View, frozen=True, kw_only=True, omit_defaults=True):
    """`status` of a Job."""

    conditions: tuple[JobCondition, ...] = ()
    start_time: Time | None = None
    completion_time: Time | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: Uncounted = Uncounted()

    def condition(self, kind: str) -> JobCondition | None:
        """A condition that is true."""
        return next((one for one in self.conditions if one.type == kind and one.status == "True"), None)


class Job(View, frozen=True, kw_only=True):
    """A Job."""

    metadata: Meta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def indexed(self) -> bool:
        """Whether each of its pods has a number of its own."""
        return self.spec.completion_mode == "Indexed"

    @property
    def completions(self) -> int:
        """How many successes it takes; of an Indexed Job also how many indexes there are."""
        return self.spec.completions if self.spec.completions is not None else 1

    @property
    def size(self) -> int:
        """How many pods it wants to have at once."""
        most = self.spec.parallelism
        return most if self.spec.completions is None else min(most, self.spec.completions)

    @property
    def restarts(self) -> bool:
        """Whether its pods start their containers again."""
        return bool(self.spec.template.get("spec", {}).get("restartPolicy") == "OnFailure")

    @property
    def finished(self) -> JobCondition | None:
        """What its end was."""
        return self.status.condition("Complete") or self.status.condition("Failed")


JOB: Final = JOBS.read_as(reader(Job))
