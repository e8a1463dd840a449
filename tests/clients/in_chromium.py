"""Clients in a page in Debian's Chromium, with the origin of the server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, sync_playwright

from tests.clients.feed_client import HERE, MODULES, FollowTask
from tests.clients.recorder import TIMEOUT_S

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
SCRIPTS = (MODULES / "eventsource-parser/dist/index.js", HERE / "with_event_source.js", HERE / "with_fetch.js")
POLL_INTERVAL_MS = 100


class _InChromium:
    name: str
    uses_fetch: bool

    def missing(self) -> str | None:
        if not CHROMIUM.exists():
            return f"{CHROMIUM} is not installed"
        missing = [script.name for script in SCRIPTS if not script.exists()]
        return "npm's eventsource-parser is not installed; `make test` does it" if missing else None

    @contextmanager
    def follow(self, task: FollowTask) -> Iterator[None]:
        """One page for all feeds. Playwright needs its own thread."""
        task.start(self.name)
        stopped = threading.Event()
        thread = threading.Thread(target=self._browse, args=(task, stopped), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join(TIMEOUT_S)

    def _browse(self, task: FollowTask, stopped: threading.Event) -> None:
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                self._listen(self._page(browser, task), task, stopped)
                browser.close()
        except Error as error:
            task.recorder.record_report(self.name, {"feed": task.feeds[0].name, "gaveUp": repr(error)})

    def _listen(self, page: Page, task: FollowTask, stopped: threading.Event) -> None:
        received = 0
        while not stopped.is_set():
            new_reports = page.evaluate("received => reports.slice(received)", received)
            received += len(new_reports)
            for report in new_reports:
                task.recorder.record_report(self.name, report)
            page.wait_for_timeout(POLL_INTERVAL_MS)

    def _page(self, browser: Browser, task: FollowTask) -> Page:
        page = browser.new_page()
        page.goto(f"{task.url}/health")
        if not self.uses_fetch:
            page.set_extra_http_headers({"Authorization": f"Bearer {task.token}"})
        modules = [script.read_text() for script in SCRIPTS]
        arguments = {"modules": modules, "tasks": task.as_json(), "byFetch": self.uses_fetch}
        page.evaluate((HERE / "in_page.js").read_text(), arguments)
        return page


class BrowserEventSource(_InChromium):
    """The browser's EventSource. Playwright adds the token."""

    name = "EventSource in Chromium"
    uses_fetch = False


class BrowserFetch(_InChromium):
    """The browser's fetch(), read as a stream."""

    name = "fetch in Chromium"
    uses_fetch = True
