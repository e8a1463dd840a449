"""Frame rate of the console page while it receives 500 events per second."""

import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal
from tests.clients.in_chromium import CHROMIUM
from tests.console.browsing import DESKTOP, PATIENCE_MS, Console, browser, publish
from tests.console.event_load import EVENTS_PER_S, publish_steadily
from tests.console.test_endurance import LONGEST_FRAME_MS, WATCH
from tests.serving import Member, run_server

SECONDS = 10
FRAME_GOAL = Goal(LONGEST_FRAME_MS, at_most=True)


def measure(directory: Path, seconds: int = SECONDS) -> Iterator[Table]:
    """Open the page, publish events, and measure its frames. Yields nothing without a browser."""
    if not CHROMIUM.exists():
        return
    directory.mkdir(parents=True)
    with run_server(directory) as server, sync_playwright() as playwright, browser(playwright) as launched:
        context = launched.new_context(viewport=DESKTOP)
        context.set_default_timeout(PATIENCE_MS)
        frames = _measure_frames(Console(context), server.organization(), seconds)
        context.close()
    rows = (
        Row("frames", "/s", {"Annals": frames["frames"] / frames["seconds"]}),
        Row("the longest time between two frames", "ms", {"Annals": frames["longest"]}, (FRAME_GOAL,)),
        Row("the longest task of the page", "ms", {"Annals": frames["tasks"]}, (FRAME_GOAL,)),
        Row("elements in the page", "", {"Annals": frames["nodes"]}),
    )
    yield Table(f"the console with {EVENTS_PER_S} events a second", rows)


def _measure_frames(console: Console, member: Member, seconds: int) -> dict[str, float]:
    publish(member, {"type": ["first"]})
    page = console.open(member)
    console.wait_for_state("connected")
    with publish_steadily(member, seconds + 2):
        console.wait("() => Number(document.querySelector('.live').dataset.seen) > 500")
        page.evaluate(WATCH)
        began = time.monotonic()
        page.wait_for_timeout(seconds * 1000)
        watched: dict[str, float] = page.evaluate("watched")
        watched["seconds"] = time.monotonic() - began
        watched["nodes"] = page.evaluate("document.querySelectorAll('*').length")
    return watched
