"""A browser, a server with a month of demo data, and a tab for each test."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from infra.tools.demo.__main__ import fill
from infra.tools.demo.month import DemoSpec
from tests.clients.feed_client import MODULES
from tests.clients.in_chromium import CHROMIUM
from tests.console.browsing import DESKTOP, PATIENCE_MS, Console, browser
from tests.serving import Member, Server, fixture_member, run_server

__all__ = ["fixture_member"]

AXE = MODULES / "axe-core" / "axe.min.js"
DEMO = "demo"
DEMO_EVENTS = 6_000


@pytest.fixture(scope="session", name="server")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with demo data in the log of one organization."""
    folder = tmp_path_factory.mktemp("console")
    fill(folder, DEMO, DemoSpec(1, time.time_ns() // 1_000_000, DEMO_EVENTS))
    with run_server(folder) as running:
        yield running
        assert running.process.poll() is None, f"the server exited; its output:\n{running.output}"


@pytest.fixture
def demo(server: Server) -> Member:
    """A member of the demo organization."""
    return server.member(DEMO)


@pytest.fixture(scope="session", name="browser")
def a_browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    with sync_playwright() as playwright, browser(playwright) as launched:
        yield launched


@pytest.fixture
def console(browser: Browser) -> Iterator[Console]:
    """A tab. The test fails if the page logs an error or a CSP violation."""
    context = browser.new_context(viewport=DESKTOP, timezone_id="UTC", locale="en-GB")
    context.set_default_timeout(PATIENCE_MS)
    opened = Console(context)
    yield opened
    context.close()
    assert opened.complaints == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The axe-core accessibility script."""
    if not AXE.exists():
        pytest.skip("npm's axe-core is not installed; `make test` does it")
    return AXE.read_text()
