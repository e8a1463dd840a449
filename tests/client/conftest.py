"""Fixtures: one server, an organization per test, and both clients."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from annals_client import Annals
from tests.client.both_clients import ClientFactory, ClientKind, client_factory, immediate_retries
from tests.client.shell import Shell, shell_for
from tests.client.shell_completion import SHELLS as COMPLETIONS
from tests.client.shell_completion import CompletionFunction, is_missing
from tests.fault_proxy import ScriptedProxy
from tests.serving import Member, Server, fixture_member, fixture_server

__all__ = ["fixture_member", "fixture_server"]


@pytest.fixture(params=["sync", "async"], name="create_client")
def client_factory_of_each_kind(request: pytest.FixtureRequest) -> Iterator[ClientFactory]:
    """Creates clients. Each test runs with both kinds."""
    kind: ClientKind = request.param
    with client_factory(kind) as factory:
        yield factory


@pytest.fixture(name="annals")
def a_client(create_client: ClientFactory, server: Server, member: Member) -> Annals:
    """A client of the test's organization."""
    return create_client(server.url, member.token)


@pytest.fixture(name="proxy")
def a_proxy(server: Server) -> Iterator[ScriptedProxy]:
    """A proxy in front of the server."""
    with ScriptedProxy("127.0.0.1", server.port) as proxy:
        yield proxy


@pytest.fixture(name="proxied_annals")
def proxied_client(create_client: ClientFactory, proxy: ScriptedProxy, member: Member) -> Annals:
    """A client that connects to the server through the proxy."""
    return create_client(proxy.url, member.token, retry_policy=immediate_retries())


@pytest.fixture(name="background")
def background_executor() -> Iterator[ThreadPoolExecutor]:
    """An executor for blocking calls."""
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture
def complete(shell_name: str) -> CompletionFunction:
    """The completion of a shell. Skips if the shell is not installed."""
    if is_missing(shell_name):
        pytest.skip(f"{shell_name} is not installed")
    return COMPLETIONS[shell_name]


@pytest.fixture(name="shell")
def a_shell(member: Member) -> Shell:
    """A shell of a member with all permissions in a new organization."""
    return shell_for(member)
