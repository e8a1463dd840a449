"""Fixtures: the views of each store, and unused servers."""

from collections.abc import Iterator
from itertools import count

import pytest

from chalicelib.services.ports import Views


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def views(request: pytest.FixtureRequest, store: str) -> Views:
    views: Views = request.getfixturevalue(f"{store}_views")
    return views


@pytest.fixture
def servers() -> Iterator[int]:
    """Unused server numbers."""
    return count(1)
