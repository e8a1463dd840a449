"""Feed: what came after a position, or what comes next (long poll)."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from chalicelib.domain.event_seq import Empty, EventSeq, NonEmpty
from chalicelib.domain.heads import Head
from chalicelib.domain.pages import Page
from chalicelib.domain.selection import Selection
from chalicelib.services.ports import Log, Wake
from chalicelib.services.read import scan, scan_back, session_at


@dataclass(frozen=True, slots=True)
class FeedQuery:
    """Which events of which log, from where, how many, and how long to wait for the first."""

    server: int
    selection: Selection
    after: int = 0
    limit: int | None = None
    """Negative: the newest first."""
    timeout_s: float = 0.0


def follow(query: FeedQuery, log: Log, wake: Wake, monotonic: Callable[[], float] = time.monotonic) -> EventSeq:
    """Answer as soon as something matches, and after `timeout_s` in any case.

    An answer always says how far it looked, so that whoever asks again after that misses nothing.
    """
    deadline = monotonic() + query.timeout_s
    seen = session_at(log, log.head(query.server), query.after)
    for turn in count():
        page = _page(query, log, seen)
        if page.wires:
            return NonEmpty(page.event_id, page.wires)
        seen = page.seen
        remaining_s = deadline - monotonic()
        if remaining_s <= 0 or (page.complete and not wake.wait(query.server, seen.session, remaining_s, turn)):
            break
    return Empty(page.event_id)


def _page(query: FeedQuery, log: Log, seen: Head) -> Page:
    if query.limit is not None and query.limit < 0:
        head = log.head(query.server)
        return scan_back(log, head, max(query.after, seen.last), query.selection, -query.limit)
    return scan(log, seen, query.after, query.selection, query.limit)
