"""Feed: what came after a position, or what comes next (long poll, stream)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.queries.page import Page
from chalicelib.services.feeds.suspension import Reading, Stream, Wait, waited
from chalicelib.services.ports import Measure, Wake, unmeasured
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Forgotten, Retention
from chalicelib.services.reading.scan import PAGE_BYTES, Form, Frame, Wanted, collected, collected_back, commits_for

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
    present: LogReader,
    wake: Wake,
    retention: Retention,
    monotonic: Callable[[], float] = time.monotonic,
) -> EventSeq:
    """What `following` leads to, waiting in this thread."""
    return waited(following(query, present, retention, monotonic), wake)


def following(
    query: FeedQuery,
    present: LogReader,
    retention: Retention,
    monotonic: Callable[[], float] = time.monotonic,
    measure: Measure = unmeasured,
) -> Reading[EventSeq]:
    """Answer as soon as something matches, and after `timeout_s` in any case.

    An answer always says how far it looked, so that whoever asks again after that misses nothing.
    """
    found = _following(query, query.after, query.timeout_s, present, retention, monotonic)
    seq, _ = yield from _measured(found, measure)
    return seq


def stream(
    query: FeedQuery,
    present: LogReader,
    retention: Retention,
    heartbeat_s: float | None = None,
    once: bool = False,
    monotonic: Callable[[], float] = time.monotonic,
    measure: Measure = unmeasured,
) -> Stream[EventSeq | None]:
    """One answer after the other until `timeout_s` or `limit`; None for each heartbeat without an event.

    `once`: only until there are events. The last answer is `Empty` if the time was up, `Torn` if a gap was met.
    """
    deadline = monotonic() + query.timeout_s
    query = replace(query, most_bytes=query.most_bytes if once else PIECE_BYTES)
    after, page = query.after, None
    while True:
        now = monotonic()
        remaining_s = max(deadline - now, 0.0)
        patience_s = remaining_s if heartbeat_s is None else min(remaining_s, heartbeat_s)
        found = _following(query, after, patience_s, present, retention, monotonic, page)
        seq, page = yield from _measured(found, measure)
        match seq:
            case NonEmpty(event_id, wires):
                after = event_id
                if query.limit is not None:
                    query = replace(query, limit=query.limit - len(wires))
                # Whoever reads slowly holds this for long: nothing of it stays here.
                page, given = page and replace(page, wires=[]), [seq]
                del seq, wires
                yield given.pop()
                if once or (query.limit is not None and query.limit <= 0):
                    return
            case Torn():
                yield seq
                return
            case Empty(last_event_id):
                after = last_event_id
                if remaining_s <= patience_s or monotonic() < now + patience_s:
                    yield seq  # the time is up, or the process ends
                    return
                yield None


_Found = tuple[EventSeq, Page | None]


def _measured(found: Reading[_Found], measure: Measure) -> Reading[_Found]:
    """The reading; if it has to wait, whether that was in vain is measured."""
    if measure is unmeasured:
        return found
    return _watched(found, measure)


def _watched(found: Reading[_Found], measure: Measure) -> Reading[_Found]:
    has_waited = False
    try:
        wait = next(found)
        while True:
            has_waited = True
            wait = found.send((yield wait))
    except StopIteration as end:
        seq, page = end.value
    if has_waited and not isinstance(seq, Torn):
        measure("PollWakes" if isinstance(seq, NonEmpty) else "IdlePolls")
    return seq, page


def _following(
    query: FeedQuery,
    after: int | None,
    timeout_s: float,
    present: LogReader,
    retention: Retention,
    monotonic: Callable[[], float],
    last: Page | None = None,
) -> Reading[_Found]:
    """The next answer after `after`, and the page it was found on; `last` is the page before, if there was one."""
    deadline = monotonic() + timeout_s
    forgotten = retention.forgotten(query.server)
    if after is not None and after < forgotten.last:
        return Torn(forgotten.last), None
    after = max(after or 0, forgotten.last)
    seen, is_near = _start(query.server, present, after, forgotten, last)
    start = seen
    turns = count()
    if is_near and timeout_s > 0:
        # All up to here was seen a moment ago, and whoever waits is told of what came since.
        known = yield Wait(seen, query.selection, timeout_s, next(turns))
        if known is None:
            return Empty(seen.last), last
        seen = known
    for turn in turns:
        page = _page(query, present, seen, after, is_near=is_near or turn > 0)
        if _is_torn(query, page):
            return Torn(page.event_id), page
        if page.wires:
            is_delayed = turn > 0 and query.delay_s > 0
            page = (yield from _delayed(query, present, start, after, monotonic)) if is_delayed else page
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


def _start(server: int, present: LogReader, after: int, forgotten: Forgotten, last: Page | None) -> tuple[Head, bool]:
    """From where to look, and whether that is near the log's end."""
    if last is not None and last.seen.last >= forgotten.last:
        return last.seen, last.complete
    return forgotten.before if after == forgotten.last else present.at(server, after), False


def _is_torn(query: FeedQuery, page: Page) -> bool:
    return query.oldest is not None and page.first_at is not None and page.first_at < query.oldest


def _delayed(
    query: FeedQuery, present: LogReader, start: Head, after: int, monotonic: Callable[[], float]
) -> Reading[Page]:
    """Wait for more, then give all that came."""
    until = monotonic() + query.delay_s
    while (left_s := until - monotonic()) > 0:
        if (yield Wait(present.log.head(query.server), query.selection, left_s)) is None:
            break
    return _page(query, present, start, after, is_near=False)


def _page(query: FeedQuery, present: LogReader, seen: Head, after: int, is_near: bool) -> Page:
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


def _near(present: LogReader, seen: Head, after: int, wanted: Wanted) -> Page:
    return collected(present.after(seen, commits_for(wanted.limit, wanted.selection)), seen, after, wanted)
