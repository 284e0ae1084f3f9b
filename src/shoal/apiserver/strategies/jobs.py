"""Batch Jobs: the selector and labels that tie a job to its pods, and what may still change."""

from collections.abc import Iterator
from typing import Final

from shoal.api.fields import FieldError
from shoal.apiserver.registry.records import copied
from shoal.apiserver.strategies.pods import default_spec, overlook, spec_errors
from shoal.apiserver.strategies.strategy import IMMUTABLE, unchanged
from shoal.cluster.resources import Object

_UID: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME: Final = ("batch.kubernetes.io/job-name", "job-name")
_SCHEDULING: Final = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
"""What of its pods a job that has not begun may still change."""
_NOT_NEGATIVE: Final = ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
_BACKOFF: Final = 6
_UNLIMITED: Final = 2**31 - 1
"""The limit of a job whose indexes have limits of their own."""


def default(job: Object) -> None:
    """Fill in what a user left out of a job."""
    spec = job.get("spec")
    if spec is None:
        return
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _UNLIMITED if "backoffLimitPerIndex" in spec else _BACKOFF)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    if "spec" in spec.get("template", {}):
        default_spec(spec["template"]["spec"])


def begin(job: Object) -> None:
    """Tie a new job to the pods it will make."""
    job["status"] = {}
    spec, metadata = job["spec"], job["metadata"]
    if not spec["manualSelector"]:
        labels = dict.fromkeys(_UID, metadata["uid"]) | dict.fromkeys(_NAME, metadata["name"])
        labelled = spec["template"].setdefault("metadata", {})
        labelled["labels"] = labelled.get("labels", {}) | labels
        spec["selector"] = {"matchLabels": {_UID[0]: metadata["uid"]}}
    carry(job, job)


def carry(job: Object, old: Object) -> None:
    """A job without labels has those of its pods."""
    labels = old["spec"]["template"].get("metadata", {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def errors(job: Object) -> Iterator[FieldError]:
    """What the view of a job does not look at."""
    template = job.get("spec", {}).get("template", {})
    if "spec" not in template:
        return
    for field in _NOT_NEGATIVE:
        if job["spec"].get(field, 0) < 0:
            yield FieldError(f"spec.{field}", "must be at least 0")
    yield from spec_errors(template["spec"], "spec.template.spec")
    yield from _selector_errors(job["spec"], template.get("metadata", {}).get("labels", {}))
    if template["spec"]["restartPolicy"] == "Always":
        yield FieldError("spec.template.spec.restartPolicy", "must be OnFailure or Never")


def _selector_errors(spec: Object, labels: dict[str, str]) -> Iterator[FieldError]:
    """A selector is made by the server, unless the user says that it is not: then it must fit."""
    wanted = spec.get("selector", {}).get("matchLabels", {})
    if not spec["manualSelector"]:
        if "selector" in spec and set(wanted) != {_UID[0]}:
            yield FieldError("spec.selector", "`selector` not auto-generated")
    elif "selector" not in spec:
        yield FieldError("spec.selector", "is required when manualSelector is true")
    elif any(labels.get(name) != value for name, value in wanted.items()):
        yield FieldError("spec.template.metadata.labels", "`selector` does not match template `labels`")


def frozen(job: Object, old: Object) -> Iterator[FieldError]:
    """Complain about changes of what the pods of a job go by."""
    yield from unchanged(job, old, "spec.selector", "spec.completionMode", "spec.podFailurePolicy")
    new, was = job["spec"], old["spec"]
    elastic = was["completionMode"] == "Indexed" and new.get("completions") == new["parallelism"]
    if not elastic:
        yield from unchanged(job, old, "spec.completions")
    template = copied(new["template"])
    if was["suspend"] and "startTime" not in old.get("status", {}):
        overlook(template["spec"], was["template"]["spec"], *_SCHEDULING)
        overlook(template, was["template"], "metadata")
    if template != was["template"]:
        yield FieldError("spec.template", IMMUTABLE)
