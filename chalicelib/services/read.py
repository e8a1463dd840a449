"""Read: go through a log in order, from any position, and know how far one has seen."""

import time
from collections.abc import Callable, Iterable, Iterator

from chalicelib.domain.commits import Commit, chained, chained_back
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.heads import Head
from chalicelib.domain.pages import Page
from chalicelib.domain.selection import Selection
from chalicelib.services.ports import Log

PAGE_BYTES = 4 * 1024 * 1024
"""An answer stays below Lambda's 6 MB, quotes and escapes included."""
SCAN_S = 15.0
"""How long one request may look for events that do not come."""


def session_at(log: Log, head: Head, event_id: int) -> Head:
    """Where the log stood when `event_id` had been written: the last commit with nothing after `event_id`.

    Galloping back from the head: readers are mostly close behind it.
    """
    if event_id >= head.last:
        return head
    later, step = head.session, 1
    earlier = _head_at(log, head.server, later - step)
    while earlier.last > event_id:
        later, step = earlier.session, step * 2
        earlier = _head_at(log, head.server, max(later - step, 0))
    while later - earlier.session > 1:
        middle = _head_at(log, head.server, (earlier.session + later) // 2)
        if middle.last > event_id:
            later = middle.session
        else:
            earlier = middle
    return earlier


def scan(
    log: Log,
    start: Head,
    after: int,
    selection: Selection,
    limit: int | None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Page:
    """The selected events after `start` whose EventId is greater than `after`, in order, `limit` at most."""
    page = Page(seen=start, event_id=start.last)
    deadline = monotonic() + SCAN_S
    size = 0
    for commit in chained(start, log.read(start.server, start.session, _commits_for(limit, selection))):
        found = selected(commit, after, selection)
        if limit is not None and len(page.wires) + len(found) > limit:
            found = found[: limit - len(page.wires)]
            page.wires += (wire for _, wire in found)
            page.event_id, page.complete = page.event_id if not found else found[-1][0], False
            return page
        page.wires += (wire for _, wire in found)
        page.seen, page.event_id = commit.head, commit.last
        size += sum(_bytes(wire) for _, wire in found)
        # Without a filter the next commit, if there is one, tells whether more follows; with one it might be far.
        is_full = len(page.wires) == limit and not selection.everything
        if is_full or size > PAGE_BYTES or monotonic() > deadline:
            page.complete = False
            return page
    return page


def scan_back(log: Log, head: Head, after: int, selection: Selection, limit: int) -> Page:
    """The newest `limit` selected events after `after`, newest first."""
    page = Page(seen=head, event_id=head.last)
    size = 0
    for commit in chained_back(log.read_back(head.server, head.session + 1)):
        if commit.last <= after:
            break
        found = selected(commit, after, selection)
        page.wires += (wire for _, wire in reversed(found))
        size += sum(_bytes(wire) for _, wire in found)
        if len(page.wires) >= limit or size > PAGE_BYTES:
            break
    del page.wires[limit:]
    return page


def selected(commit: Commit, after: int, selection: Selection) -> list[tuple[int, str]]:
    """EventId and JSON of the commit's events that are selected and come after `after`."""
    numbered: Iterable[tuple[int, str]] = enumerate(commit.wires, start=commit.at)
    if selection.everything and after < commit.at:
        return list(numbered)
    events: Iterator[bool] = (selection.selects(event) for event in commit.events)
    return [
        (event_id, wire)
        for (event_id, wire), wanted in zip(numbered, events, strict=True)
        if wanted and event_id > after
    ]


def _head_at(log: Log, server: int, session: int) -> Head:
    if session <= 0:
        return Head(server)
    commit = log.commit(server, session)
    if commit is None:
        raise LogBroken(f"session {session} of server {server} is missing")
    return commit.head


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _commits_for(limit: int | None, selection: Selection) -> int | None:
    """Each commit has an event, so without a filter this many are enough: one may be read already, one shows more."""
    return limit + 2 if limit is not None and selection.everything else None
