"""Drives the console in a browser and collects page errors."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, ViewportSize

from tests.clients.in_chromium import CHROMIUM, FLAGS
from tests.serving import Member

PATIENCE_MS = 15_000
"""Timeout for page conditions, generous for loaded machines."""
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
_EXPECTED = re.compile(r"Failed to load resource|net::ERR_")
"""Browser messages about failed requests, which some tests cause on purpose."""


class Console:
    """One tab."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        """Page errors, warnings and CSP violations."""
        self.page.on("console", self._on_message)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, member: Member, place: str = "#/live") -> Page:
        """Open the console, signed in, at a page."""
        self.page.goto(f"{member.server.url}/console/icon.svg")
        self.page.evaluate("token => sessionStorage.setItem('annals.token', token)", member.token)
        self.page.goto(f"{member.server.url}/{place}")
        return self.page

    def wait(self, condition: str, argument: object = None) -> None:
        """Wait until a JavaScript condition holds."""
        self.page.wait_for_function(condition, arg=argument, timeout=PATIENCE_MS)

    def wait_for_state(self, state: str) -> None:
        """Wait until the feed is in this state."""
        self.wait("state => document.getElementById('feed-status')?.dataset.state === state", state)

    def cells(self, name: str) -> list[str]:
        """The text of one column, from top to bottom."""
        cells: list[str] = self.page.evaluate(
            """name => [...document.querySelectorAll('.rows-view .rows-row')]
                .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
                .map(row => row.querySelector('.' + name).textContent)""",
            name,
        )
        return cells

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not _EXPECTED.search(message.text):
            self.complaints.append(message.text)


@contextmanager
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Debian's chromium with an empty profile."""
    launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    try:
        yield launched
    finally:
        launched.close()


def publish(member: Member, *events: dict[str, Any], vocabulary: str | None = None) -> list[dict[str, Any]]:
    """Append events and return them as stored."""
    path = "/events" if vocabulary is None else f"/events/{vocabulary}"
    answer = member.request("POST", path, json={"events": events})
    assert answer.status_code == 201, answer.text
    stored: list[dict[str, Any]] = answer.json()["events"]
    return stored


def shown_event(page: Page) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(page.get_by_label("The event as JSON").inner_text())
    return event


def eventually(page: Page, condition: Callable[[], bool]) -> None:
    """Poll a condition outside the page while the page keeps running."""
    for _ in range(PATIENCE_MS // 50):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("the condition did not become true in time")
