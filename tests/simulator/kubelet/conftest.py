"""The kubelet is tested on every cluster of the conformance tests."""

from tests.conformance.conftest import cluster, home, keep, namespace, pytest_collection_modifyitems

__all__ = ["cluster", "home", "keep", "namespace", "pytest_collection_modifyitems"]
