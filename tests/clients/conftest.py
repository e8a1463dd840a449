"""The clients, and a server for them."""

from collections.abc import Sequence

import pytest

from tests.clients.following import Client
from tests.clients.in_chromium import BrowserEventSource, BrowserFetch
from tests.clients.in_node import NodeEventSource
from tests.clients.in_python import HttpxSse
from tests.serving import a_member, a_server

__all__ = ["a_member", "a_server"]

CLIENTS: Sequence[Client] = (NodeEventSource(), HttpxSse(), BrowserEventSource(), BrowserFetch())


@pytest.fixture(params=CLIENTS, ids=lambda client: str(client.name))
def client(request: pytest.FixtureRequest) -> Client:
    """Each of the clients."""
    found: Client = request.param
    _skip_without([found])
    return found


@pytest.fixture
def clients() -> Sequence[Client]:
    """All of them."""
    _skip_without(CLIENTS)
    return CLIENTS


def _skip_without(wanted: Sequence[Client]) -> None:
    """The one reason to skip a test: a machine without a browser or Node can run all others."""
    missing = {reason for client in wanted if (reason := client.missing())}
    if missing:
        pytest.skip(", ".join(sorted(missing)))
