"""The console as people use it: a page in a browser, what it shows, and what it complains about."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, ViewportSize

from tests.clients.in_chromium import CHROMIUM, FLAGS
from tests.serving import Member

PATIENCE_MS = 15_000
"""How long a page may take for what it does at once, on a machine that others load too."""
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
_EXPECTED = re.compile(r"Failed to load resource|net::ERR_")
"""What the browser itself says of requests that were refused or broken off, as tests make them be."""


class Console:
    """One tab."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        """What went wrong in the page: errors, and whatever its policy forbade."""
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, member: Member, place: str = "#/live") -> Page:
        """The console, signed in, at a place."""
        self.page.goto(f"{member.server.url}/console/icon.svg")
        self.page.evaluate("token => sessionStorage.setItem('annals.token', token)", member.token)
        self.page.goto(f"{member.server.url}/{place}")
        return self.page

    def wait(self, condition: str, argument: object = None) -> None:
        """Until a condition, written in the page's language, holds."""
        self.page.wait_for_function(condition, arg=argument, timeout=PATIENCE_MS)

    def wait_for_state(self, state: str) -> None:
        """Until the feed is in this state."""
        self.wait("state => document.getElementById('feed-status')?.dataset.state === state", state)

    def cells(self, name: str) -> list[str]:
        """The text of one column of the list, from above; its elements are in no order."""
        cells: list[str] = self.page.evaluate(
            """name => [...document.querySelectorAll('.rows-view .rows-row')]
                .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
                .map(row => row.querySelector('.' + name).textContent)""",
            name,
        )
        return cells

    def _heard(self, message: ConsoleMessage) -> None:
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
    """Append events; as readers get them."""
    path = "/events" if vocabulary is None else f"/events/{vocabulary}"
    answer = member.ask("POST", path, json={"events": events})
    assert answer.status_code == 201, answer.text
    found: list[dict[str, Any]] = answer.json()["events"]
    return found


def shown_event(page: Page) -> dict[str, Any]:
    """The event whose JSON is open."""
    event: dict[str, Any] = json.loads(page.get_by_label("The event as JSON").inner_text())
    return event


def eventually(page: Page, found: Callable[[], bool]) -> None:
    """Look again, and let the page work meanwhile, until something holds that the page cannot know."""
    for _ in range(PATIENCE_MS // 50):
        if found():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not come to pass")
