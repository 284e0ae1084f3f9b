"""The patch that scales each kind, and the errors where it cannot be scaled."""

from typing import Any

import pytest

from shoal.cli.commands.scale import scale_patch
from shoal.cluster.resources import JOBS, SERVICES, Object, Resource, resource_of
from shoal.kinds.base import CannotScaleError, ScalePatch

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
    "a Job": (JOBS, {}, "", ScalePatch({"spec": {"parallelism": 3}})),
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


@pytest.mark.parametrize("resource, obj, role, expected", CASES.values(), ids=CASES)
def test_scale_patch(resource: Resource[Any], obj: Object, role: str, expected: ScalePatch) -> None:
    assert scale_patch(resource, obj, 3, role) == expected


REFUSED: dict[str, tuple[Resource[Any], Object, int, str, str]] = {
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
}


@pytest.mark.parametrize("resource, obj, size, role, message", REFUSED.values(), ids=REFUSED)
def test_error_says_how_the_job_can_be_scaled(
    resource: Resource[Any], obj: Object, size: int, role: str, message: str
) -> None:
    with pytest.raises(CannotScaleError, match=message):
        scale_patch(resource, obj, size, role)
