"""One world and one server for the tests of this directory; each test has an organization of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.notifications.narration import Teller, settings, teller
from tests.notifications.outside import Outside, outside
from tests.notifications.sites import Site, site
from tests.serving import Server, serving


@pytest.fixture(scope="session", name="authority")
def an_authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session", name="world")
def a_world(authority: trustme.CA) -> Iterator[Outside]:
    with outside(authority) as found:
        yield found


@pytest.fixture(scope="session", name="server")
def a_telling_server(
    world: Outside, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("telling")
    with serving(folder / "data", **settings(world, folder, authority)) as running:
        yield running
        assert running.process.poll() is None, f"the server ended; it said:\n{running.output}"


@pytest.fixture(name="anna")
def a_teller(server: Server, world: Outside) -> Teller:
    return teller(server, world)


@pytest.fixture(name="here")
def a_site(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path / "site") as found:
        yield found
