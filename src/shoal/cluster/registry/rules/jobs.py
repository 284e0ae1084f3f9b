"""Batch Jobs: the selector and labels that tie a job to its pods, and what may still change."""

from collections.abc import Iterator
from typing import Any, Final

from shoal.api.fields import FieldError
from shoal.cluster.registry.records import copied
from shoal.cluster.registry.rules.pods import default_spec, spec_errors
from shoal.cluster.registry.rules.rules import unchanged
from shoal.cluster.resources import Object

_UID: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME: Final = ("batch.kubernetes.io/job-name", "job-name")
_SCHEDULING: Final = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
"""What of its pods a job that has not begun may still change."""
_BACKOFF: Final = 6


def default(job: Object) -> None:
    """Fill in what a user left out of a job."""
    spec = job.get("spec")
    if not isinstance(spec, dict):
        return
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _BACKOFF)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault(
        "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    )
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        given = template["spec"].get("restartPolicy")
        default_spec(template["spec"])
        if given is None:
            template["spec"]["restartPolicy"] = "Always"


def begin(job: Object) -> None:
    """Tie a new job to the pods it will make."""
    job["status"] = {}
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector") is True:
        return
    labels = dict.fromkeys(_UID, metadata["uid"]) | dict.fromkeys(_NAME, metadata["name"])
    template = spec["template"]
    inner = template.setdefault("metadata", {})
    inner["labels"] = (inner.get("labels") or {}) | labels
    metadata["labels"] = (metadata.get("labels") or {}) | labels
    spec.setdefault("selector", {}).setdefault("matchLabels", {})[_UID[0]] = metadata["uid"]


def errors(job: Object) -> Iterator[FieldError]:
    """What the view of a job does not look at."""
    template = _mapping(_mapping(job.get("spec")).get("template"))
    spec = template.get("spec")
    if not isinstance(spec, dict):
        return
    yield from spec_errors(spec, "spec.template.spec")
    yield from _selector_errors(job["spec"], template)
    if spec.get("restartPolicy") == "Always":
        yield FieldError(
            "spec.template.spec.restartPolicy", "must be OnFailure or Never, which a job must choose between"
        )


def _selector_errors(spec: Object, template: Object) -> Iterator[FieldError]:
    """A selector is made by the server, unless the user says that it is not: then it must fit."""
    selector = spec.get("selector")
    if spec.get("manualSelector") is not True:
        if selector and set(_mapping(_mapping(selector).get("matchLabels"))) != {_UID[0]}:
            yield FieldError("spec.selector", "`selector` not auto-generated")
        return
    labels = _mapping(_mapping(template.get("metadata")).get("labels"))
    wanted = _mapping(_mapping(selector).get("matchLabels"))
    if not selector:
        yield FieldError("spec.selector", "is required when manualSelector is true")
    elif any(labels.get(name) != value for name, value in wanted.items()):
        yield FieldError("spec.template.metadata.labels", "`selector` does not match template `labels`")


def frozen(job: Object, old: Object) -> Iterator[FieldError]:
    """Complain about changes of what the pods of a job go by."""
    yield from unchanged(job, old, "spec.selector", "spec.completionMode", "spec.podFailurePolicy")
    new, was = job["spec"], old["spec"]
    elastic = was.get("completionMode") == "Indexed" and new.get("completions") == new.get("parallelism")
    if not elastic:
        yield from unchanged(job, old, "spec.completions")
    template = copied(new["template"])
    if was.get("suspend") and not old.get("status", {}).get("startTime"):
        _loosen(template, was["template"])
    if template != was["template"]:
        yield FieldError("spec.template", "field is immutable")


def _loosen(template: Any, was: Any) -> None:  # noqa: ANN401 - a template
    """Compare as if what decides where the pods go had not changed."""
    for field in _SCHEDULING:
        template["spec"].pop(field, None)
        if field in was["spec"]:
            template["spec"][field] = was["spec"][field]
    template["metadata"] = was.get("metadata", {})


def _mapping(value: object) -> Object:
    return value if isinstance(value, dict) else {}
