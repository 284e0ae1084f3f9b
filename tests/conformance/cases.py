"""Parametrization by tables of cases and by resources."""

from collections.abc import Sequence
from typing import Any

import pytest

from shoal.cluster.resources import Resource


def cases(names: str, rows: Sequence[tuple[Any, ...]]) -> pytest.MarkDecorator:
    """Run a test for each row; the first element is the name of the case."""
    single = "," not in names
    values = [row[1] if single else row[1:] for row in rows]
    return pytest.mark.parametrize(names, values, ids=[row[0] for row in rows])


def kinds(*resources: Resource[Any]) -> pytest.MarkDecorator:
    """Run a test for each resource, as `resource`."""
    return pytest.mark.parametrize("resource", resources, ids=[resource.plural for resource in resources])
