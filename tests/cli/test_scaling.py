"""The patch that scales each kind, and the errors where it cannot be scaled."""

from typing import Any

import pytest

from shoal.cli.commands.scale import scale_patch
from shoal.cluster.resources import JOBS, SERVICES, Object, Resource, resource_of
from shoal.kinds.base import CannotScaleError, ScalePatch
from tests.cli.in_process import invoke

DIJOB: Object = {"metadata": {"resourceVersion": "7"}, "spec": {"template": {}}}
ELASTIC: Object = {
    "metadata": {},
    "spec": {"template": {}, "preemptible": True, "minReplicas": 2, "maxReplicas": 4},
}
TASKS: Object = {
    "metadata": {"resourceVersion": "7"},
    "spec": {"tasks": [{"type": "learner"}, {"name": "extra", "replicas": 2}]},
}
TYJOB: Object = {"metadata": {"resourceVersion": "7"}, "spec": {"workerSets": [{"name": "w", "counts": 2}]}}
EDL: Object = {"metadata": {}, "spec": {"trainer": {"min-instance": 1, "max-instance": 9}}}

CASES: dict[str, tuple[Resource[Any], Object, str, ScalePatch]] = {
    "a Job": (JOBS, {"metadata": {}}, "", ScalePatch({"spec": {"parallelism": 3}})),
    "a DIJob of a template": (
        resource_of("DIJob"),
        DIJOB,
        "",
        ScalePatch({"status": {"replicas": 3}}, "status"),
    ),
    "an elastic DIJob": (
        resource_of("DIJob"),
        ELASTIC,
        "",
        ScalePatch({"status": {"requestedReplicas": 3}}, "status"),
    ),
    "a task, by its type": (
        resource_of("DIJob"),
        TASKS,
        "learner",
        ScalePatch(
            {
                "metadata": {"resourceVersion": "7"},
                "spec": {"tasks": [{"type": "learner", "replicas": 3}, {"name": "extra", "replicas": 2}]},
            }
        ),
    ),
    "the only worker set": (
        resource_of("TYJob"),
        TYJOB,
        "",
        ScalePatch(
            {"metadata": {"resourceVersion": "7"}, "spec": {"workerSets": [{"name": "w", "counts": 3}]}}
        ),
    ),
    "a kind with a scale subresource": (SERVICES, {}, "", ScalePatch({"spec": {"replicas": 3}}, "scale")),
}


FINISHED: dict[str, Object] = {
    "phase": {"status": {"phase": "Succeeded"}},
    "stage": {"status": {"stage": "Failed"}},
    "condition": {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
}
DELETED: Object = {**DIJOB, "metadata": {"deletionTimestamp": "2026-01-31T12:00:00Z"}}


@pytest.mark.parametrize("resource, obj, role, expected", CASES.values(), ids=CASES)
def test_scale_patch(resource: Resource[Any], obj: Object, role: str, expected: ScalePatch) -> None:
    assert scale_patch(resource, obj, 3, role) == expected


REFUSED: dict[str, tuple[Resource[Any], Object, int | None, str, str]] = {
    "too many": (resource_of("DIJob"), ELASTIC, 5, "", "between minReplicas, 2, and maxReplicas, 4"),
    "too few": (resource_of("DIJob"), ELASTIC, 1, "", "between minReplicas, 2, and maxReplicas, 4"),
    "several tasks without --role": (
        resource_of("DIJob"),
        TASKS,
        3,
        "",
        "has learner and extra: say which with --role",
    ),
    "an unknown worker set": (resource_of("TYJob"), TYJOB, 3, "nope", "has w: say which with --role"),
    "an autoscaled TrainingJob": (
        resource_of("TrainingJob"),
        EDL,
        3,
        "",
        "min-instance, 1, and max-instance, 9",
    ),
    "the size of a TrainingJob left to the autoscaler": (
        resource_of("TrainingJob"),
        EDL,
        None,
        "",
        "min-instance, 1, and max-instance, 9",
    ),
    "a role of a job of one template": (resource_of("DIJob"), DIJOB, 3, "learner", "leave out --role"),
    "more ranks than a DIJob may have": (resource_of("DIJob"), DIJOB, 5001, "", "at most 5000 replicas"),
    "an automatic size of a DIJob that is not preemptible": (
        resource_of("DIJob"),
        DIJOB,
        None,
        "",
        "only a preemptible job in template form is",
    ),
    "an automatic size of a DIJob with tasks": (
        resource_of("DIJob"),
        {**TASKS, "spec": {**TASKS["spec"], "preemptible": True}},
        None,
        "",
        "only a preemptible job in template form is",
    ),
    "an automatic size of a TYJob": (resource_of("TYJob"), TYJOB, None, "", "not sized automatically"),
    "an automatic size of a kind that is no job": (SERVICES, {}, None, "", "not sized automatically"),
    "a DIJob that is being deleted": (resource_of("DIJob"), DELETED, 3, "", "being deleted"),
    "a job of a final phase": (resource_of("DIJob"), DIJOB | FINISHED["phase"], 3, "", "has finished"),
    "a job of a final stage": (resource_of("TYJob"), TYJOB | FINISHED["stage"], 3, "w", "has finished"),
    "a Job that is complete": (JOBS, FINISHED["condition"], 3, "", "has finished"),
    "an automatic size of one role": (
        resource_of("DIJob"),
        {**TASKS, "spec": {**TASKS["spec"], "preemptible": True}},
        None,
        "learner",
        "leave out --role",
    ),
    "an automatic size of a finished job": (
        resource_of("DIJob"),
        {**ELASTIC, **FINISHED["phase"]},
        None,
        "",
        "has finished",
    ),
}


@pytest.mark.parametrize("resource, obj, size, role, message", REFUSED.values(), ids=REFUSED)
def test_error_says_how_the_job_can_be_scaled(
    resource: Resource[Any], obj: Object, size: int | None, role: str, message: str
) -> None:
    with pytest.raises(CannotScaleError, match=message):
        scale_patch(resource, obj, size, role)


def test_automatic_size_drops_the_requested_one() -> None:
    expected = ScalePatch({"status": {"requestedReplicas": None}}, "status")
    assert scale_patch(resource_of("DIJob"), ELASTIC, None, "") == expected


SIZES = {
    "a word": (("dijob/x", "--replicas=many"), "must be a whole number from 0, or auto, not 'many'"),
    "a negative number": (("dijob/x", "--replicas=-1"), "must be a whole number from 0, or auto, not '-1'"),
}


@pytest.mark.parametrize("arguments, message", SIZES.values(), ids=SIZES)
def test_size_is_a_number_or_auto(arguments: tuple[str, ...], message: str) -> None:
    result = invoke("scale", *arguments)
    assert result.code == 2
    assert message in result.err
