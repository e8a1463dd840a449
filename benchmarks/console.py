"""The console under load: 500 events a second for ten seconds, as the frames of its page show it."""

import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.results import Row, Table
from benchmarks.table import Goal
from tests.clients.in_chromium import CHROMIUM
from tests.console.browsing import DESKTOP, PATIENCE_MS, Console, browser, publish
from tests.console.pouring import A_SECOND, pouring
from tests.console.test_endurance import LONGEST_FRAME_MS, WATCH
from tests.serving import Member, serving

SECONDS = 10
LONGEST = Goal(LONGEST_FRAME_MS, at_most=True)


def measured(directory: Path, seconds: int = SECONDS) -> Iterator[Table]:
    """Open the page, pour, look at its frames; nothing where there is no browser."""
    if not CHROMIUM.exists():
        return
    directory.mkdir(parents=True)
    with serving(directory) as server, sync_playwright() as playwright, browser(playwright) as launched:
        context = launched.new_context(viewport=DESKTOP)
        context.set_default_timeout(PATIENCE_MS)
        watched = _watched(Console(context), server.organization(), seconds)
        context.close()
    rows = (
        Row("frames", "/s", {"Annals": watched["frames"] / watched["seconds"]}),
        Row("the longest time between two frames", "ms", {"Annals": watched["longest"]}, (LONGEST,)),
        Row("the longest task of the page", "ms", {"Annals": watched["tasks"]}, (LONGEST,)),
        Row("elements in the page", "", {"Annals": watched["nodes"]}),
    )
    yield Table(f"the console with {A_SECOND} events a second", rows)


def _watched(console: Console, member: Member, seconds: int) -> dict[str, float]:
    publish(member, {"type": ["first"]})
    page = console.open(member)
    console.wait_for_state("connected")
    with pouring(member, seconds + 2):
        console.wait("() => Number(document.querySelector('.live').dataset.seen) > 500")
        page.evaluate(WATCH)
        began = time.monotonic()
        page.wait_for_timeout(seconds * 1000)
        watched: dict[str, float] = page.evaluate("watched")
        watched["seconds"] = time.monotonic() - began
        watched["nodes"] = page.evaluate("document.querySelectorAll('*').length")
    return watched
