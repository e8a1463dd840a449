"""One server for the tests of this directory; each test has an organization of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import Member, Server, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running
        assert running.process.poll() is None, f"the server ended; it said:\n{running.output}"


@pytest.fixture
def member(server: Server) -> Member:
    return server.organization()


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, to be treated badly."""
    with serving(tmp_path) as running:
        yield running
