"""The CRDs that `shoal crds` prints work with a real API server and the real kubectl."""

import json

import pytest

from shoal.api import registry
from shoal.api.kinds import Kind
from shoal.kinds.dijob.kind import KIND as DIJOB
from shoal.kinds.pool.kind import KIND as POOL
from shoal.kinds.tyjob.kind import KIND as TYJOB
from tests import builders
from tests.cli.process import shoal
from tests.k8s.controlplane import ControlPlane
from tests.k8s.fixtures import DEFINITIONS, established

EACH_KIND = pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.kind)
T = builders.template(cpu=1)


def test_every_definition_is_established(k8s: ControlPlane) -> None:
    assert established(k8s) == {f"{kind.plural}.{kind.group}": "True" for kind in registry.kinds()}


@EACH_KIND
def test_a_definition_has_no_errors(k8s: ControlPlane, kind: Kind) -> None:
    """A schema that is not structural, or a name conflict, would be a condition."""
    found = k8s.client().get(f"{DEFINITIONS}/{kind.plural}.{kind.group}")
    assert {entry["type"]: entry["status"] for entry in found["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }


def test_applying_again_changes_nothing(k8s: ControlPlane) -> None:
    done = k8s.kubectl("apply", "-f", "-", stdin=shoal("crds").stdout)
    assert done.stderr == ""
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["unchanged"] * len(registry.kinds())


@EACH_KIND
def test_the_json_form_applies_too(k8s: ControlPlane, kind: Kind) -> None:
    printed = shoal("crds", "-o", "json", kind.kind)
    done = k8s.kubectl("replace", "--dry-run=server", "-f", "-", stdin=printed.stdout)
    assert (done.returncode, done.stderr) == (0, "")


@EACH_KIND
def test_kubectl_explains_every_kind(k8s: ControlPlane, kind: Kind) -> None:
    done = k8s.kubectl("explain", f"{kind.plural}.{kind.group}", "--recursive")
    assert (done.returncode, done.stderr) == (0, "")
    assert str(kind.view.__doc__) in done.stdout


def test_kubectl_shows_columns(k8s: ControlPlane, namespace: str) -> None:
    job = builders.tyjob("a", leader=T, workers={"w": (2, T)}) | {"apiVersion": TYJOB.api_version}
    del job["metadata"]["namespace"]
    jobs = f"/apis/{TYJOB.api_version}/namespaces/{namespace}/{TYJOB.plural}"
    made = k8s.client().create(jobs, job)
    made["status"] = {"stage": "Running", "scheduleState": "ScheduledSucceed", "ready": "2/2"}
    assert k8s.client().call("PUT", f"{jobs}/a/status", made)[0] == 200
    shown = k8s.kubectl("get", "tyj", "-n", namespace, "-o", "wide").stdout.splitlines()
    assert shown[0].split() == [
        "NAME",
        "STAGE",
        "SCHEDULE",
        "READY",
        "LEADER",
        "PRIORITY",
        "POLICY",
        "PROGRESS",
        "AGE",
    ]
    assert shown[1].split()[:6] == ["a", "Running", "ScheduledSucceed", "2/2", "5", "BinPack"]


def test_jobs_are_selected_by_phase(k8s: ControlPlane, namespace: str) -> None:
    jobs = f"/apis/{DIJOB.api_version}/namespaces/{namespace}/{DIJOB.plural}"
    for name in ("a", "b"):
        job = builders.dijob(name, T)
        del job["metadata"]["namespace"]
        made = k8s.client().create(jobs, job)
    k8s.client().call("PUT", f"{jobs}/b/status", made | {"status": {"phase": "Running"}})
    found = k8s.client().get(f"{jobs}?fieldSelector=status.phase%3DRunning")["items"]
    assert [job["metadata"]["name"] for job in found] == ["b"]


def test_categories(k8s: ControlPlane, namespace: str) -> None:
    k8s.client().create(f"/apis/{POOL.api_version}/pools", builders.pool("of-a-category"))
    try:
        done = k8s.kubectl("get", "shoal", "-n", namespace, "-o", "json")
        found = [item["metadata"]["name"] for item in json.loads(done.stdout)["items"]]
        assert "of-a-category" in found
    finally:
        k8s.client().call("DELETE", f"/apis/{POOL.api_version}/pools/of-a-category")
