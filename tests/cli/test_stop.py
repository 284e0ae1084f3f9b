"""`shoal stop`: jobs that can be ended early, and what is said of the others."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.cli.commands.stop import stop_patch
from shoal.cluster.resources import JOBS, PODS, Object, Resource, resource_of
from shoal.kinds.base import CannotStopError
from tests.apiserver.http.api_server import Embedded, embedded_api
from tests.cli.in_process import Result, invoke
from tests.kinds.tyjob.cluster import tyjob

TYJOB = resource_of("TYJob")
PAUSE = "cannot be stopped: set spec.suspend to pause it, or delete it"

REFUSED: dict[str, tuple[Resource[Any], Object, str]] = {
    "a DIJob": (resource_of("DIJob"), {}, PAUSE),
    "a TrainingJob": (resource_of("TrainingJob"), {}, PAUSE),
    "a Job": (JOBS, {}, PAUSE),
    "a pod": (PODS, {}, "it is not a job"),
    "a TYJob that has succeeded": (TYJOB, {"status": {"stage": "Succeeded"}}, "has finished already"),
    "a TYJob that has failed": (TYJOB, {"status": {"stage": "Failed"}}, "has finished already"),
    "a TYJob that is being deleted": (
        TYJOB,
        {"metadata": {"deletionTimestamp": "2026-01-31T12:00:00Z"}},
        "is being deleted already",
    ),
}


@pytest.mark.parametrize("resource, obj, message", REFUSED.values(), ids=REFUSED)
def test_error_says_what_to_do_instead(resource: Resource[Any], obj: Object, message: str) -> None:
    with pytest.raises(CannotStopError, match=message):
        stop_patch(resource, {"metadata": {}} | obj)


@pytest.mark.parametrize("stage", [None, "Pending", "Starting", "Running", "Rescheduling"])
def test_a_tyjob_is_stopped_in_every_stage_that_is_not_final(stage: str | None) -> None:
    status = {"stage": stage} if stage else {}
    assert stop_patch(TYJOB, {"metadata": {}, "status": status}) == {"spec": {"terminating": True}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded_api(tmp_path_factory.mktemp("embedded")) as running:
        yield running


def shoal(api: Embedded, command: str, stdin: str = "") -> Result:
    return invoke(*command.split(), "--kubeconfig", str(api.kubeconfig()), stdin=stdin)


def test_stop_sets_terminating(api: Embedded) -> None:
    meta = {"name": "a", "labels": {"team": "go"}}
    job = {"apiVersion": "tyrl.io/v1alpha1", "kind": "TYJob", "metadata": meta, "spec": tyjob()}
    assert shoal(api, "create -f -", json.dumps(job)).code == 0
    terminating = "get tyjob a -o jsonpath={.spec.terminating}"
    assert shoal(api, "stop tyjob/a --dry-run=server").out == "tyjob.tyrl.io/a stopped (server dry run)\n"
    assert shoal(api, terminating).out == "false"
    assert shoal(api, "stop tyjobs -l team=go").out == "tyjob.tyrl.io/a stopped\n"
    assert shoal(api, terminating).out == "true"
    assert shoal(api, "stop tyj a").out == "tyjob.tyrl.io/a stopped\n", "again"


ERRORS = {
    "stop tyjob/missing": 'tyjobs.tyrl.io "missing" not found',
    "stop": "Missing argument",
    "stop tyjobs": "name tyjobs, select some with -l, or all with --all",
    "stop ns/default": "error: namespace/default cannot be stopped: it is not a job",
}


@pytest.mark.parametrize("command, message", ERRORS.items(), ids=ERRORS)
def test_errors(api: Embedded, command: str, message: str) -> None:
    result = shoal(api, command)
    assert (result.out, result.code != 0) == ("", True)
    assert message in result.err
