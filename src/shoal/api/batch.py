"""batch/v1 Job: the fields that scheduling reads, validation, and lists of completion indexes."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec

from shoal.api.fields import FieldError, shown
from shoal.api.meta import Condition, Count, Int32, Object, Time, View, metadata_errors
from shoal.api.names import parse_small_int
from shoal.api.podspec import Template, template_errors

_MAX_INDEXES: Final = 1_000_000
_TERMINAL_CONDITIONS: Final = ("Complete", "SuccessCriteriaMet", "Failed", "FailureTarget")
INDEX_KEY: Final = "batch.kubernetes.io/job-completion-index"


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
