"""The kubelet is tested on every cluster of the conformance tests."""

from tests.conformance.conftest import (
    cluster,
    create_temporary,
    home,
    namespace,
    pytest_collection_modifyitems,
)

__all__ = ["cluster", "create_temporary", "home", "namespace", "pytest_collection_modifyitems"]
