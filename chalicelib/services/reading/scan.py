"""Scan a log: find positions, and collect events into pages."""

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, verify_contiguous
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.page import Page
from chalicelib.domain.queries.size_limit import UTF8_PAGE, SizeLimit
from chalicelib.services.ports import Log

SCAN_TIMEOUT_S = 15.0
"""How long one request may search for events."""

EventFormatter = Callable[[Event], str]
"""Renders an event. An empty text omits the event."""
WireFormatter = Callable[[int, str], str]
"""Wraps the text of an event, with its EventId, for the wire."""


@dataclass(frozen=True, slots=True)
class PageSpec:
    """Which events a page contains, how many, and in which format."""

    selection: Selection
    limit: int | None = None
    formatter: EventFormatter | None = None
    """None renders core events."""
    wire_formatter: WireFormatter | None = None
    """None leaves texts as they are."""
    size_limit: SizeLimit = UTF8_PAGE


def find_position(log: Log, head: Head, event_id: int) -> Head:
    """Head of the log as of `event_id`: the last commit without an event after `event_id`.

    Searches backwards from `head`, because most readers are close to it. Deleted commits count as earlier than any.
    """
    if event_id >= head.last_event_id:
        return head
    earlier, later = exponential_search(log, head, event_id, head.session)
    return binary_search(log, earlier, later, event_id)


def exponential_search(log: Log, head: Head, event_id: int, max_distance: int) -> tuple[Head, int]:
    """Search backwards from `head` with doubling steps for a commit at or before `event_id`.

    Returns that commit and a later session after `event_id`. Beyond `max_distance` sessions it gives up, and the
    returned commit is still after `event_id`.
    """
    later, step = head.session, 1
    earlier = head_at(log, head.server, later - step)
    while earlier.last_event_id > event_id and head.session - earlier.session < max_distance:
        later, step = earlier.session, step * 2
        earlier = head_at(log, head.server, later - step)
    return earlier, later


def binary_search(log: Log, earlier: Head, later: int, event_id: int) -> Head:
    """The last commit without an event after `event_id`, from `earlier` on and before session `later`."""
    while later - earlier.session > 1:
        middle = head_at(log, earlier.server, (earlier.session + later) // 2)
        if middle.last_event_id > event_id:
            later = middle.session
        else:
            earlier = middle
    if earlier.session and not earlier.last_event_id:
        # The commit itself is deleted. The first one that is kept knows its last EventId.
        first_kept = log.commit(earlier.server, later)
        return Head(earlier.server, earlier.session, 0, first_kept.previous_event_id if first_kept else 0)
    return earlier


def head_at(log: Log, server: int, session: int) -> Head:
    """Head of the log as of `session`. Its `last_event_id` is 0 if the commit is deleted."""
    if session <= 0:
        return Head(server)
    commit = log.commit(server, session)
    return Head(server, session) if commit is None else commit.head


def scan(
    log: Log,
    start: Head,
    after: int,
    selection: Selection,
    limit: int | None,
    size_limit: SizeLimit = UTF8_PAGE,
    monotonic: Callable[[], float] = time.monotonic,
) -> Page:
    """Read the selected events after `start` with an EventId greater than `after`, at most `limit`."""
    commits = verify_contiguous(start, log.read(start.server, start.session, max_commits_for(limit, selection)))
    return collect_page(commits, start, after, PageSpec(selection, limit, size_limit=size_limit), monotonic)


def collect_page(
    commits: Iterable[Commit],
    start: Head,
    after: int,
    spec: PageSpec,
    monotonic: Callable[[], float] = time.monotonic,
) -> Page:
    """Collect events with an EventId greater than `after` from `commits`, which follow `start`."""
    limit = spec.limit
    texts: list[str] = []
    scanned_to, event_id, position, first_at_us = start, start.last_event_id, start.position, None
    deadline = monotonic() + SCAN_TIMEOUT_S
    size_bytes = 0
    for commit in commits:
        event_ids, new_texts = format_selected(commit, after, spec)
        if new_texts and first_at_us is None:
            first_at_us = commit.at_us
        if limit is not None and len(texts) + len(new_texts) > limit:
            room = limit - len(texts)
            if room:
                event_id, position = event_ids[room - 1], commit.position_of(event_ids[room - 1])
            return Page(scanned_to, event_id, [*texts, *new_texts[:room]], first_at_us, position, is_complete=False)
        texts += new_texts
        scanned_to, event_id = commit.head, commit.last_event_id
        position = scanned_to.position
        size_bytes += spec.size_limit.measure(new_texts)
        # Without a filter, read on: the next commit shows whether there are more events. With a filter, the next
        # selected event might be far away.
        is_full = len(texts) == limit and not spec.selection.selects_everything
        if is_full or size_bytes > spec.size_limit.max_bytes or monotonic() > deadline:
            return Page(scanned_to, event_id, texts, first_at_us, position, is_complete=False)
    return Page(scanned_to, event_id, texts, first_at_us, position)


def first_page(events: Iterable[Event], head: Head, event_id: int, limit: int, size_limit: SizeLimit) -> Page:
    """The first of `events`, at most `limit`. `head` and `event_id` are the position that the page reports."""
    texts: list[str] = []
    size_bytes = 0
    for event in events:
        if len(texts) == limit or size_bytes > size_limit.max_bytes:
            return Page(head, event_id, texts, is_complete=False)
        texts.append(event.wire_text)
        size_bytes += size_limit.measure(texts[-1:])
    return Page(head, event_id, texts)


def collect_page_backwards(
    commits: Iterable[Commit],
    end: Head,
    after: int,
    spec: PageSpec,
    monotonic: Callable[[], float] = time.monotonic,
) -> Page:
    """Collect events with an EventId greater than `after`, newest first, from `commits`, which go back.

    Events after the `last_event_id` of `end` are left out. It may be within the first of `commits`. If the search takes
    too long and has found nothing, the EventId of the page is the one before which to continue.
    """
    texts: list[str] = []
    limit = -(spec.limit or 0)
    deadline = monotonic() + SCAN_TIMEOUT_S
    size_bytes = 0
    for commit in commits:
        if commit.last_event_id <= after:
            break
        event_ids, new_texts = format_selected(commit, after, spec)
        new_texts = new_texts[: bisect_right(event_ids, end.last_event_id)]
        texts += reversed(new_texts)
        size_bytes += spec.size_limit.measure(new_texts)
        if len(texts) >= limit or size_bytes > spec.size_limit.max_bytes:
            is_complete = len(texts) <= limit and commit.previous_event_id <= after
            return Page(end, end.last_event_id, texts[:limit], position=end.position, is_complete=is_complete)
        # Each page goes back by at least one event. The first commit may be entirely after `end`.
        if monotonic() > deadline and after < commit.previous_event_id and commit.at_us <= end.last_event_id:
            event_id, position = (end.last_event_id, end.position) if texts else (commit.at_us, None)
            return Page(end, event_id, texts, position=position, is_complete=False)
    return Page(end, end.last_event_id, texts, position=end.position)


def format_selected(commit: Commit, after: int, spec: PageSpec) -> tuple[Sequence[int], list[str]]:
    """EventIds and texts of the commit's selected events with an EventId greater than `after`."""
    event_ids, texts = _format_events(commit, after, spec)
    return event_ids, list(map(spec.wire_formatter, event_ids, texts)) if spec.wire_formatter else texts


def _format_events(commit: Commit, after: int, spec: PageSpec) -> tuple[Sequence[int], list[str]]:
    selection, formatter = spec.selection, spec.formatter
    if formatter is None and selection.selects_everything and after < commit.at_us:
        return range(commit.at_us, commit.last_event_id + 1), commit.wire_texts
    event_ids: list[int] = []
    texts: list[str] = []
    for event in commit.find_events(selection.candidates):
        if event.event_id > after and selection.selects(event):
            text = formatter(event) if formatter else event.wire_text
            if text:
                event_ids.append(event.event_id)
                texts.append(text)
    return event_ids, texts


def max_commits_for(limit: int | None, selection: Selection) -> int | None:
    """Maximum number of commits needed for `limit` events, or None if unknown.

    Without a filter each commit contributes at least one event. One more may lie before the position, and one more
    shows whether there are further events.
    """
    return limit + 2 if limit is not None and selection.selects_everything else None
