"""One server for the tests of this folder, with a new organization for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import Server, fixture_member, fixture_server, run_server

__all__ = ["fixture_member", "fixture_server"]


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Server]:
    """A separate server that the test may harm."""
    with run_server(tmp_path) as running:
        yield running
