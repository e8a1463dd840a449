"""One server for the tests of this directory, an organization for each test, and both clients."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from annals_client import Annals
from tests.client.completing import SHELLS as COMPLETING
from tests.client.completing import Completes, is_missing
from tests.client.proxy import Proxy
from tests.client.shell import Shell, shell_of
from tests.client.talking import Kind, Talk, hasty, talking
from tests.serving import Member, Server, a_member, a_server

__all__ = ["a_member", "a_server"]


@pytest.fixture(params=["sync", "async"], name="talk")
def a_talk(request: pytest.FixtureRequest) -> Iterator[Talk]:
    """Makes clients: of each kind once."""
    kind: Kind = request.param
    with talking(kind) as talk:
        yield talk


@pytest.fixture(name="annals")
def a_client(talk: Talk, server: Server, member: Member) -> Annals:
    """A client of the test's organization."""
    return talk(server.url, member.token)


@pytest.fixture(name="proxy")
def a_proxy(server: Server) -> Iterator[Proxy]:
    """A proxy before the server."""
    with Proxy(server.url) as running:
        yield running


@pytest.fixture(name="through")
def a_client_through_the_proxy(talk: Talk, proxy: Proxy, member: Member) -> Annals:
    """A client of the test's organization that finds the server by the proxy."""
    return talk(proxy.url, member.token, manners=hasty())


@pytest.fixture(name="beside")
def a_thread_beside() -> Iterator[ThreadPoolExecutor]:
    """Where something can wait while the test goes on."""
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture
def completes(shell_name: str) -> Completes:
    """A shell by its name, if this machine has it."""
    if is_missing(shell_name):
        pytest.skip(f"{shell_name} is not installed")
    return COMPLETING[shell_name]


@pytest.fixture(name="shell")
def a_shell(member: Member) -> Shell:
    """The shell of somebody with every right in an organization of the test's own."""
    return shell_of(member)
