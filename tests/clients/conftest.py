"""Fixtures: the clients and a server."""

from collections.abc import Sequence

import pytest

from tests.clients.feed_client import Client
from tests.clients.in_chromium import BrowserEventSource, BrowserFetch
from tests.clients.in_node import NodeEventSource
from tests.clients.in_python import HttpxSse
from tests.serving import fixture_member, fixture_server

__all__ = ["fixture_member", "fixture_server"]

CLIENTS: Sequence[Client] = (NodeEventSource(), HttpxSse(), BrowserEventSource(), BrowserFetch())


@pytest.fixture(params=CLIENTS, ids=lambda client: str(client.name))
def client(request: pytest.FixtureRequest) -> Client:
    selected: Client = request.param
    _skip_without([selected])
    return selected


@pytest.fixture
def clients() -> Sequence[Client]:
    _skip_without(CLIENTS)
    return CLIENTS


def _skip_without(required: Sequence[Client]) -> None:
    """Skip on machines without a browser or Node."""
    missing = {reason for client in required if (reason := client.missing())}
    if missing:
        pytest.skip(", ".join(sorted(missing)))
