"""What changes the size of each kind, and what is said where nothing does."""

from typing import Any

import pytest

from shoal.cli.input.scaling import CannotScaleError, Rescaling, rescaling
from shoal.cluster.resources import DIJOBS, JOBS, SERVICES, TRAININGJOBS, TYJOBS, Object, Resource

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

CASES: dict[str, tuple[Resource[Any], Object, str, Rescaling]] = {
    "a Job": (JOBS, {}, "", Rescaling({"spec": {"parallelism": 3}})),
    "a DIJob of a template": (DIJOBS, DIJOB, "", Rescaling({"status": {"replicas": 3}}, "status")),
    "an elastic DIJob": (DIJOBS, ELASTIC, "", Rescaling({"status": {"requestedReplicas": 3}}, "status")),
    "a task, by its type": (
        DIJOBS,
        TASKS,
        "learner",
        Rescaling(
            {
                "metadata": {"resourceVersion": "7"},
                "spec": {"tasks": [{"type": "learner", "replicas": 3}, {"name": "extra", "replicas": 2}]},
            }
        ),
    ),
    "the only worker set": (
        TYJOBS,
        TYJOB,
        "",
        Rescaling(
            {"metadata": {"resourceVersion": "7"}, "spec": {"workerSets": [{"name": "w", "counts": 3}]}}
        ),
    ),
    "whatever else": (SERVICES, {}, "", Rescaling({"spec": {"replicas": 3}}, "scale")),
}


@pytest.mark.parametrize("resource, thing, role, wanted", CASES.values(), ids=CASES)
def test_what_changes_a_size(resource: Resource[Any], thing: Object, role: str, wanted: Rescaling) -> None:
    assert rescaling(resource, thing, 3, role) == wanted


REFUSED: dict[str, tuple[Resource[Any], Object, int, str, str]] = {
    "too many": (DIJOBS, ELASTIC, 5, "", "between minReplicas, 2, and maxReplicas, 4"),
    "too few": (DIJOBS, ELASTIC, 1, "", "between minReplicas, 2, and maxReplicas, 4"),
    "which task": (DIJOBS, TASKS, 3, "", "has learner and extra: say which with --role"),
    "no such set": (TYJOBS, TYJOB, 3, "nope", "has w: say which with --role"),
    "the autoscaler's": (TRAININGJOBS, EDL, 3, "", "min-instance, 1, and max-instance, 9"),
}


@pytest.mark.parametrize("resource, thing, size, role, said", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_scaled_says_what_can_be_done(
    resource: Resource[Any], thing: Object, size: int, role: str, said: str
) -> None:
    with pytest.raises(CannotScaleError, match=said):
        rescaling(resource, thing, size, role)
