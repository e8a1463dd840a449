"""A browser, a server whose log has a month in it, and a tab for each test."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from infra.tools.demo.__main__ import fill
from infra.tools.demo.month import Wanted
from tests.clients.following import MODULES
from tests.clients.in_chromium import CHROMIUM
from tests.console.browsing import DESKTOP, PATIENCE_MS, Console, browser
from tests.serving import Member, Server, a_member, serving

__all__ = ["a_member"]

AXE = MODULES / "axe-core" / "axe.min.js"
DEMO = "demo"
DEMO_EVENTS = 6_000


@pytest.fixture(scope="session", name="server")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a small month in the log of one organization."""
    folder = tmp_path_factory.mktemp("console")
    fill(folder, DEMO, Wanted(1, time.time_ns() // 1_000_000, DEMO_EVENTS))
    with serving(folder) as running:
        yield running
        assert running.process.poll() is None, f"the server ended; it said:\n{running.output}"


@pytest.fixture
def demo(server: Server) -> Member:
    """Somebody who may see the month."""
    return server.member(DEMO)


@pytest.fixture(scope="session", name="browser")
def a_browser() -> Iterator[Browser]:
    """One browser for all tests of a process."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    with sync_playwright() as playwright, browser(playwright) as launched:
        yield launched


@pytest.fixture
def console(browser: Browser) -> Iterator[Console]:
    """A tab that complains of nothing: no error in it, and nothing that its policy forbids."""
    context = browser.new_context(viewport=DESKTOP, timezone_id="UTC", locale="en-GB")
    context.set_default_timeout(PATIENCE_MS)
    opened = Console(context)
    yield opened
    context.close()
    assert opened.complaints == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The script that looks for what keeps people out."""
    if not AXE.exists():
        pytest.skip("npm's axe-core is not installed; `make test` does it")
    return AXE.read_text()
