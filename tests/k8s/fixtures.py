"""Fixtures of a real API server, for tests of any package: `tests/conftest.py` registers them for all.

Each test process has at most one control plane of each kind, started by the first test that needs it. Without
assets these tests are skipped with the reason. Tests are separated by namespaces; objects without a namespace
they delete themselves.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from shoal.api import registry
from shoal.api.kinds import Kind
from tests.cli.process import shoal
from tests.k8s.assets import BASE, NoAssetsError, assets
from tests.k8s.controlplane import ControlPlane, control_plane
from tests.k8s.processes import until

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def need_assets(*names: str) -> None:
    """Skip the test, with the reason, if these programs are missing."""
    try:
        assets(*names)
    except NoAssetsError as why:
        pytest.skip(f"no Kubernetes to test on: {why}")


@pytest.fixture(scope="session")
def k8s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server without controllers, with our CRDs: what a test writes stays as it is."""
    need_assets("etcd", "kube-apiserver", "kubectl")
    with control_plane(tmp_path_factory.mktemp("k8s")) as plane:
        install_crds(plane)
        yield plane


@pytest.fixture(scope="module")
def k8s_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The same, for one module alone: for tests that act on a whole cluster."""
    need_assets("etcd", "kube-apiserver", "kubectl")
    with control_plane(tmp_path_factory.mktemp("k8s-alone")) as plane:
        install_crds(plane)
        yield plane


@pytest.fixture(scope="session")
def k8s_controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The same with the controllers of Kubernetes: Jobs create pods, and garbage is collected."""
    need_assets(*BASE)
    with control_plane(tmp_path_factory.mktemp("k8s-controllers"), controllers=True) as plane:
        install_crds(plane)
        _restart_controllers(plane)
        yield plane


def _restart_controllers(plane: ControlPlane) -> None:
    """Restart the controllers, so that they know the CRDs: they look for new ones twice a minute only."""
    if plane.controllers is not None:
        plane.restart(plane.controllers)


@pytest.fixture
def namespace(k8s: ControlPlane) -> str:
    """A new namespace of the API server without controllers."""
    return new_namespace(k8s)


def new_namespace(plane: ControlPlane) -> str:
    """Create a namespace. It is not deleted: that needs a controller and takes seconds."""
    made = plane.client().create("/api/v1/namespaces", {"metadata": {"generateName": "test-"}})
    return str(made["metadata"]["name"])


def install_crds(plane: ControlPlane) -> None:
    """Apply the output of `shoal crds`, as a user would, and wait until all CRDs are served."""
    printed = shoal("crds")
    applied = plane.kubectl("apply", "-f", "-", stdin=printed.stdout)
    if printed.returncode or applied.returncode:
        raise RuntimeError(f"the CRDs cannot be applied: {printed.stderr}{applied.stderr}")
    wanted = {f"{kind.plural}.{kind.group}": "True" for kind in registry.kinds()}
    until(lambda: established(plane) == wanted, "all CRDs are established")
    until(lambda: all(_is_served(plane, kind) for kind in registry.kinds()), "all CRDs are served")


def _is_served(plane: ControlPlane, kind: Kind) -> bool:
    """Return whether objects can be listed, which is a moment after the CRD is established."""
    return plane.client().call("GET", f"/apis/{kind.api_version}/{kind.plural}")[0] == 200


def established(plane: ControlPlane) -> dict[str, str]:
    """The status of the Established condition of each CustomResourceDefinition."""
    return {
        definition["metadata"]["name"]: condition["status"]
        for definition in plane.client().get(DEFINITIONS)["items"]
        for condition in definition["status"]["conditions"] or ()  # null at first
        if condition["type"] == "Established"
    }
