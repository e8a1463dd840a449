"""Feed: what came after a position, or what comes next (long poll)."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from chalicelib.domain.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.heads import Head
from chalicelib.domain.pages import Page
from chalicelib.domain.selection import Selection
from chalicelib.services.ports import Wake
from chalicelib.services.present import Ahead, Present
from chalicelib.services.read import Form, collected, collected_back, commits_for
from chalicelib.services.retention import Retention


@dataclass(frozen=True, slots=True)
class FeedQuery:
    """Which events of which log, from where, how many, and how long to wait for the first."""

    server: int
    selection: Selection
    after: int | None = None
    """None: from the first that is kept."""
    limit: int | None = None
    """Negative: the newest first."""
    timeout_s: float = 0.0
    delay_s: float = 0.0
    """How long to wait for more, if the first had to be waited for."""
    oldest: int | None = None
    """Torn if the first event is older than this."""
    form: Form | None = None
    """How events are written; None: as core events."""


def follow(
    query: FeedQuery,
    present: Present,
    wake: Wake,
    retention: Retention,
    monotonic: Callable[[], float] = time.monotonic,
) -> EventSeq:
    """Answer as soon as something matches, and after `timeout_s` in any case.

    An answer always says how far it looked, so that whoever asks again after that misses nothing.
    """
    deadline = monotonic() + query.timeout_s
    forgotten = retention.forgotten(query.server)
    if query.after is not None and query.after < forgotten.last:
        return Torn(forgotten.last)
    after = max(query.after or 0, forgotten.last)
    seen = start = forgotten.before if after == forgotten.last else present.at(query.server, after)
    for turn in count():
        page = _page(query, present, seen, after, is_near=turn > 0)
        if query.oldest is not None and page.first_at is not None and page.first_at < query.oldest:
            return Torn(page.event_id)
        if page.wires and (turn == 0 or not query.delay_s):
            return NonEmpty(page.event_id, page.wires)
        if page.wires:
            return _delayed(query, present, wake, start, after, monotonic)
        seen = page.seen
        remaining_s = deadline - monotonic()
        if remaining_s <= 0:
            break
        if page.complete:
            known = wake.wait(seen, query.selection, remaining_s, turn)
            if known is None:
                break
            seen = known
    return Empty(page.event_id)


def stream(
    query: FeedQuery,
    present: Present,
    wake: Wake,
    retention: Retention,
    heartbeat_s: float | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[EventSeq | None]:
    """One answer after the other until `timeout_s` or `limit`; None for each heartbeat without an event."""
    deadline = monotonic() + query.timeout_s
    left = query.limit
    while True:
        now = monotonic()
        remaining_s = max(deadline - now, 0.0)
        patience_s = remaining_s if heartbeat_s is None else min(remaining_s, heartbeat_s)
        seq = follow(replace(query, timeout_s=patience_s, limit=left), present, wake, retention, monotonic)
        match seq:
            case NonEmpty(event_id, wires):
                yield seq
                query = replace(query, after=event_id)
                left = None if left is None else left - len(wires)
            case Torn():
                yield seq
                return
            case Empty(last_event_id):
                query = replace(query, after=last_event_id)
                if remaining_s <= patience_s or monotonic() < now + patience_s:
                    return  # the time is up, or the process ends
                yield None
        if left is not None and left <= 0:
            return


def _delayed(
    query: FeedQuery, present: Present, wake: Wake, start: Head, after: int, monotonic: Callable[[], float]
) -> EventSeq:
    """Wait for more, then give all that came."""
    until = monotonic() + query.delay_s
    while (left_s := until - monotonic()) > 0:
        if wake.wait(present.log.head(query.server), query.selection, left_s, 0) is None:
            break
    page = _page(query, present, start, after, is_near=False)
    return NonEmpty(page.event_id, page.wires)


def _page(query: FeedQuery, present: Present, seen: Head, after: int, is_near: bool) -> Page:
    """What comes after `seen`; if that is near the log's end, the views are of no use."""
    if query.limit is not None and query.limit < 0:
        head = present.log.head(query.server)
        back = present.back(head, query.selection)
        return collected_back(back, head, max(after, seen.last), query.selection, -query.limit, query.form)
    most = commits_for(query.limit, query.selection)
    ahead = Ahead(present.after(seen, most), seen) if is_near else present.ahead(seen, query.selection, most)
    page = collected(ahead.commits, seen, after, query.selection, query.limit, query.form)
    if page.complete and page.seen.session < ahead.known.session:
        return replace(page, seen=ahead.known, event_id=ahead.known.last)
    return page
