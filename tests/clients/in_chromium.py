"""The browser's own clients, in a page of the server's own origin in Debian's chromium."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, sync_playwright

from tests.clients.following import HERE, MODULES, Errand
from tests.clients.notes import PATIENCE_S

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
SCRIPTS = (MODULES / "eventsource-parser/dist/index.js", HERE / "with_event_source.js", HERE / "with_fetch.js")
_LOOK_MS = 100


class _InChromium:
    name: str
    by_fetch: bool

    def missing(self) -> str | None:
        """The browser, or the parser that its page uses."""
        if not CHROMIUM.exists():
            return f"{CHROMIUM} is not installed"
        missing = [script.name for script in SCRIPTS if not script.exists()]
        return "npm's eventsource-parser is not installed; `make test` does it" if missing else None

    @contextmanager
    def following(self, errand: Errand) -> Iterator[None]:
        """One page for all feeds, in a browser with an empty profile; Playwright wants a thread of its own."""
        errand.begin(self.name)
        stopped = threading.Event()
        thread = threading.Thread(target=self._browse, args=(errand, stopped), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join(PATIENCE_S)

    def _browse(self, errand: Errand, stopped: threading.Event) -> None:
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                self._listen(self._page(browser, errand), errand, stopped)
                browser.close()
        except Error as error:
            errand.notes.tell(self.name, {"feed": errand.feeds[0].name, "gaveUp": repr(error)})

    def _listen(self, page: Page, errand: Errand, stopped: threading.Event) -> None:
        heard = 0
        while not stopped.is_set():
            news = page.evaluate("heard => told.slice(heard)", heard)
            heard += len(news)
            for told in news:
                errand.notes.tell(self.name, told)
            page.wait_for_timeout(_LOOK_MS)

    def _page(self, browser: Browser, errand: Errand) -> Page:
        page = browser.new_page()
        page.goto(f"{errand.url}/health")
        if not self.by_fetch:
            page.set_extra_http_headers({"Authorization": f"Bearer {errand.token}"})
        modules = [script.read_text() for script in SCRIPTS]
        orders = {"modules": modules, "errands": errand.as_json(), "byFetch": self.by_fetch}
        page.evaluate((HERE / "in_page.js").read_text(), orders)
        return page


class BrowserEventSource(_InChromium):
    """The browser's own EventSource; the token is added for it."""

    name = "EventSource in Chromium"
    by_fetch = False


class BrowserFetch(_InChromium):
    """The browser's fetch(), read as a stream."""

    name = "fetch in Chromium"
    by_fetch = True
