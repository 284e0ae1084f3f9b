"""metrics.k8s.io: resource usage of nodes and pods, with `kubectl top` and HTTP clients."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from shoal.apiserver.http.requests import NoKubelet
from shoal.kubelet.runtime import ResourceUsage, UsageReport
from tests.apiserver.http.api_server import Embedded, embedded_api
from tests.k8s.fixtures import need_assets

MEASURED = UsageReport(
    at=1_800_000_000.0,
    window=15,
    nodes={"n1": ResourceUsage(0.5, 2**30)},
    pods={
        ("lab", "two"): {"b": ResourceUsage(0.25, 5 * 2**20), "a": ResourceUsage(1, 2**20)},
        ("lab", "gone"): {"a": ResourceUsage(9, 2**30)},
        ("den", "one"): {"a": ResourceUsage(1e-9, 1023)},
    },
)


class StubKubelet(NoKubelet):
    """A kubelet without containers that reports fixed usage."""

    def usage(self) -> UsageReport:
        return MEASURED


@contextlib.asynccontextmanager
async def stub_kubelet() -> AsyncIterator[StubKubelet]:
    yield StubKubelet()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    need_assets("kubectl")
    with embedded_api(tmp_path_factory.mktemp("metrics"), stub_kubelet) as api:
        fill(api)
        yield api


def fill(api: Embedded) -> None:
    """Create objects with and without measurements."""
    client, amounts = api.client(), {"cpu": "2", "memory": "4Gi"}
    for name in ("n1", "n2"):
        client.create("/api/v1/nodes", {"metadata": {"name": name, "labels": {"name": name}}})
        body = {"status": {"capacity": amounts, "allocatable": amounts}}
        client.call("PATCH", f"/api/v1/nodes/{name}/status", body, media="application/merge-patch+json")
    spec = {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}
    for space, names in {"lab": ("two", "new"), "den": ("one",)}.items():
        client.create("/api/v1/namespaces", {"metadata": {"name": space}})
        for name in names:
            pod = {"metadata": {"name": name, "labels": {"name": name}}, "spec": spec}
            client.create(f"/api/v1/namespaces/{space}/pods", pod)


SHOWN = {
    "top nodes": ["n1 500m 25% 1024Mi 25%", "n2 <unknown> <unknown> <unknown> <unknown>"],
    "top node n1": ["n1 500m 25% 1024Mi 25%"],
    "top nodes -l name=n1": ["n1 500m 25% 1024Mi 25%"],
    "top pods -n lab": ["two 1250m 6Mi"],
    "top pod two -n lab --containers": ["two a 1000m 1Mi", "two b 250m 5Mi"],
    "top pods -A --sort-by=cpu": ["lab two 1250m 6Mi", "den one 1m 0Mi"],
    "top pods -A -l name=two": ["lab two 1250m 6Mi"],
    "top pods -A --field-selector metadata.namespace=den": ["den one 1m 0Mi"],
    "get podmetrics -n lab -o name": ["podmetrics.metrics.k8s.io/two"],
}


@pytest.mark.parametrize("command", SHOWN)
def test_kubectl_shows(measured: Embedded, command: str) -> None:
    done = measured.kubectl(*command.split(), *(["--no-headers"] if "top" in command else []))
    assert (done.returncode, done.stderr) == (0, "")
    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == SHOWN[command]


REFUSED = {
    "top pod new -n lab": '(NotFound): pods.metrics.k8s.io "new" not found',
    "top pod nope -n lab": '(NotFound): pods "nope" not found',
    "top node n2": '(NotFound): nodes.metrics.k8s.io "n2" not found',
}


@pytest.mark.parametrize("command", REFUSED)
def test_kubectl_is_refused(measured: Embedded, command: str) -> None:
    done = measured.kubectl(*command.split())
    assert done.returncode == 1
    assert REFUSED[command] in done.stderr


def test_metrics_are_read_only(measured: Embedded) -> None:
    place = "/apis/metrics.k8s.io/v1beta1/namespaces/lab/pods"
    for method, path in (("POST", place), ("DELETE", place), ("PUT", f"{place}/two")):
        assert measured.ask(method, path, b"{}").code == 405


def test_metrics_have_a_timestamp_and_window(measured: Embedded) -> None:
    found = measured.ask("GET", "/apis/metrics.k8s.io/v1beta1/nodes/n1").json
    assert (found["timestamp"], found["window"]) == ("2027-01-15T08:00:00Z", "15.000s")
    assert found["usage"] == {"cpu": "500000000n", "memory": "1048576Ki"}
