"""Strategies of batch Jobs, disruption budgets and priority classes, and the priority of pods."""

import functools
from collections.abc import Iterator
from typing import Final

from shoal.api.core import BUILT_IN_PRIORITIES
from shoal.api.fields import FieldError
from shoal.api.mutability import IMMUTABLE
from shoal.apiserver.registry.records import decode, json_copy
from shoal.apiserver.strategies.pods import default_spec, restore_fields, spec_errors
from shoal.apiserver.strategies.strategy import ObjectReader, immutable_errors
from shoal.cluster.errors import ForbiddenError
from shoal.cluster.resources import PRIORITY_CLASSES, Object

_UID_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")
_MUTABLE_WHILE_SUSPENDED: Final = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
"""Fields of the pod template that may change while a job is suspended and was never started."""
_NOT_NEGATIVE: Final = ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
_DEFAULT_BACKOFF_LIMIT: Final = 6
_UNLIMITED_BACKOFF: Final = 2**31 - 1
"""Default back-off limit of a job with backoffLimitPerIndex."""


def default_job(job: Object) -> None:
    """Set omitted fields of a job."""
    spec = job.get("spec")
    if spec is None:
        return
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault(
        "backoffLimit", _UNLIMITED_BACKOFF if "backoffLimitPerIndex" in spec else _DEFAULT_BACKOFF_LIMIT
    )
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    if "spec" in spec.get("template", {}):
        default_spec(spec["template"]["spec"])


def prepare_job_create(job: Object) -> None:
    """Generate the selector and pod labels of a new job."""
    job["status"] = {}
    spec, metadata = job["spec"], job["metadata"]
    if not spec["manualSelector"]:
        labels = dict.fromkeys(_UID_LABELS, metadata["uid"]) | dict.fromkeys(_NAME_LABELS, metadata["name"])
        labelled = spec["template"].setdefault("metadata", {})
        labelled["labels"] = labelled.get("labels", {}) | labels
        spec["selector"] = {"matchLabels": {_UID_LABELS[0]: metadata["uid"]}}
    prepare_job_update(job, job)


def prepare_job_update(job: Object, old: Object) -> None:
    """Copy the labels of the pod template to a job without labels."""
    labels = old["spec"]["template"].get("metadata", {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def job_errors(job: Object) -> Iterator[FieldError]:
    """Yield the errors that the typed view of a job does not check."""
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
    """Yield selector errors: it is generated, or with manualSelector must match the template's labels."""
    wanted = spec.get("selector", {}).get("matchLabels", {})
    if not spec["manualSelector"]:
        if "selector" in spec and set(wanted) != {_UID_LABELS[0]}:
            yield FieldError("spec.selector", "`selector` not auto-generated")
    elif "selector" not in spec:
        yield FieldError("spec.selector", "is required when manualSelector is true")
    elif any(labels.get(name) != value for name, value in wanted.items()):
        yield FieldError("spec.template.metadata.labels", "`selector` does not match template `labels`")


def job_update_errors(job: Object, old: Object) -> Iterator[FieldError]:
    """Yield errors for changes of immutable fields."""
    yield from immutable_errors(job, old, "spec.selector", "spec.completionMode", "spec.podFailurePolicy")
    new, was = job["spec"], old["spec"]
    elastic = was["completionMode"] == "Indexed" and new.get("completions") == new["parallelism"]
    if not elastic:
        yield from immutable_errors(job, old, "spec.completions")
    template = json_copy(new["template"])
    if was["suspend"] and "startTime" not in old.get("status", {}):
        restore_fields(template["spec"], was["template"]["spec"], *_MUTABLE_WHILE_SUSPENDED)
        restore_fields(template, was["template"], "metadata")
    if template != was["template"]:
        yield FieldError("spec.template", IMMUTABLE)


def default_budget(budget: Object) -> None:
    """Set omitted fields of a disruption budget."""
    budget.setdefault("spec", {})


def prepare_budget_create(budget: Object) -> None:
    """Set the status of a new budget: no disruptions are allowed until pods are counted."""
    budget["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


_MAX_USER_PRIORITY: Final = 1_000_000_000
_DEFAULT_PREEMPTION_POLICY: Final = "PreemptLowerPriority"
_PREEMPTION_POLICIES: Final = (_DEFAULT_PREEMPTION_POLICY, "Never")
_COMPUTED: Final = ("priority", "preemptionPolicy")
_BUILT_IN_DESCRIPTIONS: Final = {
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, but can be "
    "moved to another node if necessary.",
}


def built_in_priority_classes() -> list[Object]:
    """Return the two system priority classes."""
    return [
        {"metadata": {"name": name}, "value": BUILT_IN_PRIORITIES[name], "description": text}
        for name, text in _BUILT_IN_DESCRIPTIONS.items()
    ]


def default_priority_class(obj: Object) -> None:
    """Set omitted fields of a priority class."""
    obj.setdefault("preemptionPolicy", _DEFAULT_PREEMPTION_POLICY)
    obj.setdefault("value", 0)
    if obj.get("globalDefault") is False:
        del obj["globalDefault"]


def priority_class_errors(obj: Object) -> Iterator[FieldError]:
    """Yield the errors that the typed view of a priority class does not check."""
    name, value = obj["metadata"]["name"], obj.get("value", 0)
    if BUILT_IN_PRIORITIES.get(name) == value:
        return
    if name.startswith("system-"):
        yield FieldError("metadata.name", "the prefix 'system-' is reserved for system use only")
    if value > _MAX_USER_PRIORITY:
        yield FieldError("value", f"must be at most {_MAX_USER_PRIORITY}")
    if obj["preemptionPolicy"] not in _PREEMPTION_POLICIES:
        yield FieldError("preemptionPolicy", f"must be one of {', '.join(_PREEMPTION_POLICIES)}")


def priority_class_update_errors(obj: Object, old: Object) -> Iterator[FieldError]:
    """Yield errors for changed values: existing pods have copies of them."""
    yield from immutable_errors(obj, old, "value", "preemptionPolicy")


def check_priority_class_delete(obj: Object) -> None:
    """Refuse the deletion of the system priority classes."""
    name = obj["metadata"]["name"]
    if name in BUILT_IN_PRIORITIES:
        raise ForbiddenError(
            f'{PRIORITY_CLASSES.full_name} "{name}" is forbidden: this is a system priority class and '
            "cannot be deleted"
        )


def check_single_default(obj: Object, old: Object | None, reader: ObjectReader) -> None:
    """Refuse a second priority class with globalDefault."""
    name = obj["metadata"]["name"]
    if obj.get("globalDefault") is not True or (old is not None and old.get("globalDefault") is True):
        return
    for other in _classes(reader):
        if other.get("globalDefault") and other["metadata"]["name"] != name:
            raise ForbiddenError(
                f'{PRIORITY_CLASSES.full_name} "{name}" is forbidden: PriorityClass '
                f"{other['metadata']['name']} is already marked as default. Only one default can exist"
            )


def set_pod_priority(pod: Object, old: Object | None, reader: ObjectReader) -> None:
    """Set priority and preemption policy of a new pod from its class; updates keep them."""
    spec = pod.get("spec")
    if spec is None:
        return
    if old is not None:
        pod["spec"] = {name: old["spec"][name] for name in _COMPUTED if name in old["spec"]} | spec
        return
    found = _class_of(pod, reader)
    value = 0 if found is None else found["value"]
    policy = (
        _DEFAULT_PREEMPTION_POLICY
        if found is None
        else found.get("preemptionPolicy", _DEFAULT_PREEMPTION_POLICY)
    )
    for field, given, computed in (
        ("integer value of priority", spec.get("priority"), value),
        ("string value of PreemptionPolicy", spec.get("preemptionPolicy"), policy),
    ):
        if given is not None and given != computed:
            raise ForbiddenError(
                f'pods "{pod["metadata"]["name"]}" is forbidden: the {field} ({given}) must not be '
                f"provided in pod spec; priority admission controller computed {computed} from the given "
                "PriorityClass name"
            )
    spec |= {"priority": value, "preemptionPolicy": policy}


def _class_of(pod: Object, reader: ObjectReader) -> Object | None:
    """Return the pod's priority class; without one, set and return the global default, if there is one."""
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    if name:
        found = next((obj for obj in _classes(reader) if obj["metadata"]["name"] == name), None)
        if found is None:
            raise ForbiddenError(
                f'pods "{pod["metadata"]["name"]}" is forbidden: no PriorityClass with name {name} was found'
            )
        return found
    defaults = [obj for obj in _classes(reader) if obj.get("globalDefault")]
    if not defaults:
        return None
    lowest = min(defaults, key=lambda obj: obj["value"])
    spec["priorityClassName"] = lowest["metadata"]["name"]
    return lowest


def _classes(reader: ObjectReader) -> list[Object]:
    return [_decoded(record.body) for record in reader.records(PRIORITY_CLASSES.full_name)]


_decoded: Final = functools.lru_cache(maxsize=1024)(decode)
"""Cached, since every pod that is created reads all classes. The result must not be modified."""
