"""Fixtures of a real API server, for tests of any package: `tests/conftest.py` registers them for all.

A run has at most one control plane of each sort in each of its processes, started when the first test asks.
Where there is nothing to start, these tests are skipped and say why. Tests keep apart by namespaces; what has
none they delete themselves.
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
    """Skip the test if these programs are not there, with the reason."""
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
    """The same, for one module alone: whoever acts on a whole cluster minds what others leave there."""
    need_assets("etcd", "kube-apiserver", "kubectl")
    with control_plane(tmp_path_factory.mktemp("k8s-alone")) as plane:
        install_crds(plane)
        yield plane


@pytest.fixture(scope="session")
def k8s_controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The same with the controllers of Kubernetes: Jobs make pods, owners take what they own with them."""
    need_assets(*BASE)
    with control_plane(tmp_path_factory.mktemp("k8s-controllers"), controllers=True) as plane:
        install_crds(plane)
        _tell_controllers_of_crds(plane)
        yield plane


def _tell_controllers_of_crds(plane: ControlPlane) -> None:
    """Controllers that start afresh know all kinds; those that run look for new ones twice a minute."""
    if plane.controllers is not None:
        plane.restart(plane.controllers)


@pytest.fixture
def namespace(k8s: ControlPlane) -> str:
    """A namespace of the test's own, of the API server without controllers."""
    return new_namespace(k8s)


def new_namespace(plane: ControlPlane) -> str:
    """Make a namespace. None is deleted: that takes a controller and seconds, and all end with the run."""
    made = plane.client().create("/api/v1/namespaces", {"metadata": {"generateName": "test-"}})
    return str(made["metadata"]["name"])


def install_crds(plane: ControlPlane) -> None:
    """Apply what `shoal crds` prints, as a user would, and wait until the API server serves all of it."""
    printed = shoal("crds")
    applied = plane.kubectl("apply", "-f", "-", stdin=printed.stdout)
    if printed.returncode or applied.returncode:
        raise RuntimeError(f"the CRDs cannot be applied: {printed.stderr}{applied.stderr}")
    wanted = {f"{kind.plural}.{kind.group}": "True" for kind in registry.kinds()}
    until(lambda: established(plane) == wanted, "all CRDs are established")
    until(lambda: all(_is_served(plane, kind) for kind in registry.kinds()), "all CRDs are served")


def _is_served(plane: ControlPlane, kind: Kind) -> bool:
    """Whether objects can be listed, which is a moment later than the kind is established."""
    return plane.client().call("GET", f"/apis/{kind.api_version}/{kind.plural}")[0] == 200


def established(plane: ControlPlane) -> dict[str, str]:
    """The status of the Established condition of each CustomResourceDefinition."""
    return {
        definition["metadata"]["name"]: condition["status"]
        for definition in plane.client().get(DEFINITIONS)["items"]
        for condition in definition["status"]["conditions"] or ()  # null at first
        if condition["type"] == "Established"
    }
