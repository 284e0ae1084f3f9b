"""One API for all tests of a module; each test uses its own namespace."""

import secrets
from collections.abc import Iterator

import pytest

from tests.apiserver.http.api_server import Embedded, embedded_api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded_api(tmp_path_factory.mktemp("embedded")) as running:
        yield running


@pytest.fixture
def space(api: Embedded) -> str:
    """Namespace of the test."""
    name = f"test-{secrets.token_hex(4)}"
    api.client().create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name
