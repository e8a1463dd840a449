"""One server for the tests of this directory; each test has an organization of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import Server, a_member, a_server, serving

__all__ = ["a_member", "a_server"]


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, to be treated badly."""
    with serving(tmp_path) as running:
        yield running
