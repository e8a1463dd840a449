"""Feeds: the events after a position, as a page, a long poll or a stream."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.queries.page import Page
from chalicelib.domain.queries.size_limit import SizeLimit
from chalicelib.services.feeds.suspension import Stream, SuspendableRead, Wait, run_blocking
from chalicelib.services.ports import ChangeNotifier, Measure, ignore_metric
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention, RetentionBoundary
from chalicelib.services.reading.scan import (
    EventFormatter,
    PageSpec,
    WireFormatter,
    collect_page,
    collect_page_backwards,
    max_commits_for,
)

MAX_CHUNK_BYTES = 256 * 1024
"""Page size of streams. It is small because a server holds one chunk for each of many slow clients."""
MAX_QUICK_MATCH_COST = 200
"""With a selection of more comparisons per event, reading a large commit takes a fifth of a second or longer."""


@dataclass(frozen=True, slots=True)
class FeedQuery:
    """Which events of a log to read, from which position, and how long to wait for the first."""

    server: int
    selection: Selection
    after: int | None = None
    """EventId to start after. None starts with the first event that is kept."""
    limit: int | None = None
    """Maximum number of events. A negative limit returns the newest events first and does not wait."""
    timeout_s: float = 0.0
    delay_s: float = 0.0
    """How long to collect further events after a wait ended with the first one."""
    torn_before_us: int | None = None
    """The result is `Torn` if the first event is older than this time in microseconds."""
    formatter: EventFormatter | None = None
    """Renders an event. None renders core events."""
    wire_formatter: WireFormatter | None = None
    """Wraps the text of an event for the wire. None leaves it as it is."""
    max_bytes: int | None = None
    """Size of a page. None: as large as a response may be."""
    before: int | None = None
    """With a negative limit: EventId to start before. None starts with the last event."""

    def page_spec(self, size_limit: SizeLimit) -> PageSpec:
        """The part of the query that does not depend on the position. `size_limit` applies to whole responses."""
        if self.max_bytes is not None:
            size_limit = replace(size_limit, max_bytes=self.max_bytes)
        return PageSpec(self.selection, self.limit, self.formatter, self.wire_formatter, size_limit)


def long_poll_blocking(
    query: FeedQuery,
    reader: LogReader,
    notifier: ChangeNotifier,
    retention: Retention,
    monotonic: Callable[[], float] = time.monotonic,
) -> EventSeq:
    """Run `long_poll` on the calling thread."""
    return run_blocking(long_poll(query, reader, retention, monotonic), notifier)


def long_poll(
    query: FeedQuery,
    reader: LogReader,
    retention: Retention,
    monotonic: Callable[[], float] = time.monotonic,
    measure: Measure = ignore_metric,
) -> SuspendableRead[EventSeq]:
    """Return the selected events as soon as there are any, or `Empty` after `timeout_s`.

    The result always contains the EventId up to which the log was searched. A client that continues after it misses
    nothing.
    """
    read = _next_seq(query, query.after, query.timeout_s, reader, retention, monotonic)
    seq, _ = yield from _with_metrics(read, measure)
    return seq


def stream(
    query: FeedQuery,
    reader: LogReader,
    retention: Retention,
    heartbeat_s: float | None = None,
    first_page_only: bool = False,
    monotonic: Callable[[], float] = time.monotonic,
    measure: Measure = ignore_metric,
) -> Stream[EventSeq | None]:
    """Yield results until `timeout_s` or `limit` is reached, and None after each `heartbeat_s` without an event.

    With `first_page_only` the stream ends after the first events. The last result is `Empty` if the time is up, and
    `Torn` if events after the position are no longer kept.
    """
    deadline = monotonic() + query.timeout_s
    query = replace(query, max_bytes=query.max_bytes if first_page_only else MAX_CHUNK_BYTES)
    after, page = query.after, None
    while True:
        now = monotonic()
        remaining_s = max(deadline - now, 0.0)
        wait_s = remaining_s if heartbeat_s is None else min(remaining_s, heartbeat_s)
        read = _next_seq(query, after, wait_s, reader, retention, monotonic, page)
        seq, page = yield from _with_metrics(read, measure)
        match seq:
            case NonEmpty(event_id, texts):
                after = event_id
                if query.limit is not None:
                    query = replace(query, limit=query.limit - len(texts))
                # A slow client suspends this frame for long: it must not keep texts alive that were handed over.
                page, results = page and replace(page, texts=[]), [seq]
                del seq, texts
                yield results.pop()
                if first_page_only or (query.limit is not None and query.limit <= 0):
                    return
            case Torn():
                yield seq
                return
            case Empty(last_event_id):
                after = last_event_id
                if remaining_s <= wait_s or monotonic() < now + wait_s:
                    yield seq  # The time is up, or the process is shutting down.
                    return
                yield None


_SeqAndPage = tuple[EventSeq, Page | None]


def _with_metrics(read: SuspendableRead[_SeqAndPage], measure: Measure) -> SuspendableRead[_SeqAndPage]:
    """Count reads that had to wait, by whether they found an event."""
    return read if measure is ignore_metric else _count_waits(read, measure)


def _count_waits(read: SuspendableRead[_SeqAndPage], measure: Measure) -> SuspendableRead[_SeqAndPage]:
    has_waited = False
    try:
        wait = next(read)
        while True:
            has_waited = True
            wait = read.send((yield wait))
    except StopIteration as end:
        seq, page = end.value
    if has_waited and not isinstance(seq, Torn):
        measure("PollWakes" if isinstance(seq, NonEmpty) else "IdlePolls")
    return seq, page


def _next_seq(
    query: FeedQuery,
    after: int | None,
    timeout_s: float,
    reader: LogReader,
    retention: Retention,
    monotonic: Callable[[], float],
    last_page: Page | None = None,
) -> SuspendableRead[_SeqAndPage]:
    """Read the next result after `after`, and the page it comes from. `last_page` is the stream's previous page."""
    is_newest_first = query.limit is not None and query.limit < 0
    deadline = monotonic() + (0.0 if is_newest_first else timeout_s)
    # A stream whose next commits are in memory has missed nothing, so it need not ask the store how far retention is.
    is_in_memory = last_page is not None and reader.recent_commits(last_page.scanned_to) is not None
    boundary = RetentionBoundary(Head(query.server), 0) if is_in_memory else retention.boundary(query.server)
    if after is not None and after < boundary.event_id and not is_newest_first:
        return Torn(boundary.event_id, boundary.position), None
    after = max(after or 0, boundary.event_id)
    position, is_near_end = _start(query.server, reader, after, boundary, last_page)
    start = position
    waits, is_delayed = 0, query.delay_s > 0
    is_expensive = is_delayed or query.selection.match_cost > MAX_QUICK_MATCH_COST
    if is_near_end and timeout_s > 0:
        # The previous page reached the end of the log. The notifier knows of all commits since, so wait first.
        head = yield Wait(position, query.selection, timeout_s, waits, is_expensive)
        if head is None:
            return Empty(position.last_event_id, position=position.position), last_page
        position, waits = head, 1
    while True:
        has_waited = waits > 0
        is_followed = has_waited or last_page is not None
        page = _read_page(query, reader, position, after, is_near_end or has_waited, is_followed)
        if _is_torn(query, page):
            return Torn(page.event_id, page.position), page
        if page.texts:
            must_wait = has_waited and is_delayed
            page = (yield from _read_delayed(query, reader, start, after, monotonic)) if must_wait else page
            return NonEmpty(page.event_id, page.texts, not page.is_complete, page.position), page
        position = page.scanned_to
        remaining_s = deadline - monotonic()
        if remaining_s <= 0:
            break
        if page.is_complete:
            head = yield Wait(position, query.selection, remaining_s, waits, is_expensive)
            if head is None:
                break
            position = head
            waits += 1
    return Empty(page.event_id, not page.is_complete, page.position), page


def _start(
    server: int, reader: LogReader, after: int, boundary: RetentionBoundary, last_page: Page | None
) -> tuple[Head, bool]:
    """Position to read from, and whether it is known to be near the end of the log."""
    if last_page is not None and last_page.scanned_to.last_event_id >= boundary.event_id:
        return last_page.scanned_to, last_page.is_complete
    return boundary.head if after == boundary.event_id else reader.position_at(server, after), False


def _is_torn(query: FeedQuery, page: Page) -> bool:
    return query.torn_before_us is not None and page.first_at_us is not None and page.first_at_us < query.torn_before_us


def _read_delayed(
    query: FeedQuery, reader: LogReader, start: Head, after: int, monotonic: Callable[[], float]
) -> SuspendableRead[Page]:
    """Wait for `delay_s`, then read everything since `start`."""
    deadline = monotonic() + query.delay_s
    while (remaining_s := deadline - monotonic()) > 0:
        if (yield Wait(reader.log.head(query.server), query.selection, remaining_s, is_expensive=True)) is None:
            break
    return _read_page(query, reader, start, after, is_near_end=False, is_followed=False)


def _newest_first_range(query: FeedQuery, reader: LogReader) -> tuple[Head, Head]:
    """The commit to start with, and the position that the page reports, which may be within that commit."""
    head = reader.log.head(query.server)
    if query.before is None or query.before > head.last_event_id:
        return head, head
    end = reader.position_at(query.server, query.before - 1)
    # The commit after `end` may contain `before`, and events before it.
    return Head(query.server, end.session + 1), end._replace(last_event_id=max(query.before - 1, 0))


def _read_page(
    query: FeedQuery, reader: LogReader, position: Head, after: int, is_near_end: bool, is_followed: bool
) -> Page:
    """Read a page after `position`. Near the end of the log, scanning is faster than the views.

    A read that follows the log, because it was notified or continues a stream, need not ask the store for commits that
    the process knows. It is notified of newer ones.
    """
    spec = query.page_spec(reader.page_size)
    if query.limit is not None and query.limit < 0:
        start, end = _newest_first_range(query, reader)
        commits = reader.commits_before(start, query.selection)
        page = collect_page_backwards(commits, end, max(after, position.last_event_id), spec)
        # The event before `before` may be within a commit, whose first position is not known here.
        return page if query.before is None else replace(page, position=None)
    max_commits = max_commits_for(query.limit, query.selection)
    known = reader.recent_commits(position) if is_followed else None
    if known is not None or is_near_end:
        commits = reader.tail(position, max_commits) if known is None else iter(known)
        return reader.cached_page((position, after, spec), lambda: collect_page(commits, position, after, spec))
    # Excerpts of deleted commits are not found: the position is not before the retention boundary.
    run = reader.commits_after(position, query.selection, max_commits, with_excerpts=True)
    page = collect_page(run.commits, position, after, spec)
    if page.is_complete and page.scanned_to.session < run.complete_to.session:
        end = run.complete_to
        return replace(page, scanned_to=end, event_id=end.last_event_id, position=end.position)
    return page
