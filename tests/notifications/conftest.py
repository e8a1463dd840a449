"""Fake channels and a server for all tests of this directory. Each test has its own organization."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.notifications.fake_channels import FakeChannels, run_fake_channels
from tests.notifications.observer_client import ObserverClient, create_observer_client, server_environment
from tests.notifications.sites import Site, open_site
from tests.serving import Server, run_server


@pytest.fixture(scope="session", name="authority")
def an_authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session", name="channels")
def fake_channels(authority: trustme.CA) -> Iterator[FakeChannels]:
    with run_fake_channels(authority) as channels:
        yield channels


@pytest.fixture(scope="session", name="server")
def running_server(
    channels: FakeChannels, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("notifications")
    with run_server(folder / "data", **server_environment(channels, folder, authority)) as running:
        yield running
        assert running.process.poll() is None, f"the server ended with this output:\n{running.output}"


@pytest.fixture(name="anna")
def an_observer_client(server: Server, channels: FakeChannels) -> ObserverClient:
    return create_observer_client(server, channels)


@pytest.fixture(name="site")
def an_open_site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path / "site") as site:
        yield site
