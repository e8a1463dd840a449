"""Feed: what came after a position, or what comes next (long poll, stream)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from chalicelib.domain.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.heads import Head
from chalicelib.domain.pages import Page
from chalicelib.domain.selection import Selection
from chalicelib.services.ports import Wake
from chalicelib.services.present import Present
from chalicelib.services.read import PAGE_BYTES, Form, Frame, Wanted, collected, collected_back, commits_for
from chalicelib.services.retention import Retention
from chalicelib.services.waiting import Reading, Stream, Wait, waited

PIECE_BYTES = 256 * 1024
"""A stream comes in small pieces: many of them are held at once."""


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
    frame: Frame | None = None
    """How the text of an event is put on the wire; None: as it is."""
    most_bytes: int = PAGE_BYTES

    @property
    def wanted(self) -> Wanted:
        """What is read, apart from where."""
        return Wanted(self.selection, self.limit, self.form, self.frame, self.most_bytes)


def follow(
    query: FeedQuery,
    present: Present,
    wake: Wake,
    retention: Retention,
    monotonic: Callable[[], float] = time.monotonic,
) -> EventSeq:
    """What `following` leads to, waiting in this thread."""
    return waited(following(query, present, retention, monotonic), wake)


def following(
    query: FeedQuery, present: Present, retention: Retention, monotonic: Callable[[], float] = time.monotonic
) -> Reading[EventSeq]:
    """Answer as soon as something matches, and after `timeout_s` in any case.

    An answer always says how far it looked, so that whoever asks again after that misses nothing.
    """
    seq, _ = yield from _following(query, present, retention, monotonic)
    return seq


def stream(
    query: FeedQuery,
    present: Present,
    retention: Retention,
    heartbeat_s: float | None = None,
    once: bool = False,
    monotonic: Callable[[], float] = time.monotonic,
) -> Stream[EventSeq | None]:
    """One answer after the other until `timeout_s` or `limit`; None for each heartbeat without an event.

    `once`: only until there are events. The last answer is `Empty` if the time was up, `Torn` if a gap was met.
    """
    deadline = monotonic() + query.timeout_s
    query = replace(query, most_bytes=query.most_bytes if once else PIECE_BYTES)
    page: Page | None = None
    while True:
        now = monotonic()
        remaining_s = max(deadline - now, 0.0)
        patience_s = remaining_s if heartbeat_s is None else min(remaining_s, heartbeat_s)
        seq, page = yield from _following(replace(query, timeout_s=patience_s), present, retention, monotonic, page)
        match seq:
            case NonEmpty(event_id, wires):
                left = None if query.limit is None else query.limit - len(wires)
                query = replace(query, after=event_id, limit=left)
                yield seq
                if once or (left is not None and left <= 0):
                    return
            case Torn():
                yield seq
                return
            case Empty(last_event_id):
                query = replace(query, after=last_event_id)
                if remaining_s <= patience_s or monotonic() < now + patience_s:
                    yield seq  # the time is up, or the process ends
                    return
                yield None


def _following(
    query: FeedQuery,
    present: Present,
    retention: Retention,
    monotonic: Callable[[], float],
    last: Page | None = None,
) -> Reading[tuple[EventSeq, Page | None]]:
    """The next answer, and the page it was found on; `last` is the page before, if there was one."""
    deadline = monotonic() + query.timeout_s
    forgotten = retention.forgotten(query.server)
    if query.after is not None and query.after < forgotten.last:
        return Torn(forgotten.last), None
    after = max(query.after or 0, forgotten.last)
    if last is not None and last.seen.last >= forgotten.last:
        seen, is_near = last.seen, last.complete
    else:
        seen = forgotten.before if after == forgotten.last else present.at(query.server, after)
        is_near = False
    start = seen
    for turn in count():
        page = _page(query, present, seen, after, is_near=is_near or turn > 0)
        if query.oldest is not None and page.first_at is not None and page.first_at < query.oldest:
            return Torn(page.event_id), page
        if page.wires and (turn == 0 or not query.delay_s):
            return NonEmpty(page.event_id, page.wires), page
        if page.wires:
            page = yield from _delayed(query, present, start, after, monotonic)
            return NonEmpty(page.event_id, page.wires), page
        seen = page.seen
        remaining_s = deadline - monotonic()
        if remaining_s <= 0:
            break
        if page.complete:
            known = yield Wait(seen, query.selection, remaining_s, turn)
            if known is None:
                break
            seen = known
    return Empty(page.event_id), page


def _delayed(
    query: FeedQuery, present: Present, start: Head, after: int, monotonic: Callable[[], float]
) -> Reading[Page]:
    """Wait for more, then give all that came."""
    until = monotonic() + query.delay_s
    while (left_s := until - monotonic()) > 0:
        if (yield Wait(present.log.head(query.server), query.selection, left_s)) is None:
            break
    return _page(query, present, start, after, is_near=False)


def _page(query: FeedQuery, present: Present, seen: Head, after: int, is_near: bool) -> Page:
    """What comes after `seen`; if that is near the log's end, the views are of no use."""
    wanted = query.wanted
    if query.limit is not None and query.limit < 0:
        head = present.log.head(query.server)
        back = present.back(head, query.selection)
        return collected_back(back, head, max(after, seen.last), wanted)
    if is_near:
        return present.shared((seen, after, wanted), lambda: _near(present, seen, after, wanted))
    ahead = present.ahead(seen, query.selection, commits_for(query.limit, query.selection))
    page = collected(ahead.commits, seen, after, wanted)
    if page.complete and page.seen.session < ahead.known.session:
        return replace(page, seen=ahead.known, event_id=ahead.known.last)
    return page


def _near(present: Present, seen: Head, after: int, wanted: Wanted) -> Page:
    return collected(present.after(seen, commits_for(wanted.limit, wanted.selection)), seen, after, wanted)
