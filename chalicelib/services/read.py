"""Read: go through a log in order, from any position, and know how far one has seen."""

import time
from collections.abc import Callable, Iterable

from chalicelib.domain.commits import Commit, chained
from chalicelib.domain.events import Event
from chalicelib.domain.heads import Head
from chalicelib.domain.pages import Page
from chalicelib.domain.selection import Selection
from chalicelib.services.ports import Log

PAGE_BYTES = 4 * 1024 * 1024
"""An answer stays below Lambda's 6 MB, quotes and escapes included."""
SCAN_S = 15.0
"""How long one request may look for events that do not come."""

Form = Callable[[Event], str]
"""How an event is written for whoever reads."""


def session_at(log: Log, head: Head, event_id: int) -> Head:
    """Where the log stood when `event_id` had been written: the last commit with nothing after `event_id`.

    Galloping back from the head: readers are mostly close behind it. What is forgotten lies before everything.
    """
    if event_id >= head.last:
        return head
    earlier, later = galloped(log, head, event_id, head.session)
    return searched(log, earlier, later, event_id)


def galloped(log: Log, head: Head, event_id: int, most: int) -> tuple[Head, int]:
    """A commit before and a session after the place looked for; not before it if that is further than `most`."""
    later, step = head.session, 1
    earlier = head_at(log, head.server, later - step)
    while earlier.last > event_id and head.session - earlier.session < most:
        later, step = earlier.session, step * 2
        earlier = head_at(log, head.server, later - step)
    return earlier, later


def searched(log: Log, earlier: Head, later: int, event_id: int) -> Head:
    """The last commit with nothing after `event_id`, between the two."""
    while later - earlier.session > 1:
        middle = head_at(log, earlier.server, (earlier.session + later) // 2)
        if middle.last > event_id:
            later = middle.session
        else:
            earlier = middle
    if earlier.session and not earlier.last:
        first_kept = log.commit(earlier.server, later)
        return Head(earlier.server, earlier.session, 0, first_kept.prev if first_kept else 0)
    return earlier


def head_at(log: Log, server: int, session: int) -> Head:
    """The log's head as it was at `session`; its `last` is 0 if the commit is forgotten."""
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
    monotonic: Callable[[], float] = time.monotonic,
) -> Page:
    """The selected events after `start` whose EventId is greater than `after`, in order, `limit` at most."""
    commits = chained(start, log.read(start.server, start.session, commits_for(limit, selection)))
    return collected(commits, start, after, selection, limit, monotonic=monotonic)


def collected(
    commits: Iterable[Commit],
    start: Head,
    after: int,
    selection: Selection,
    limit: int | None,
    form: Form | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Page:
    """The selected events of `commits`, which come after `start`, whose EventId is greater than `after`."""
    wires: list[str] = []
    seen, event_id, first_at = start, start.last, None
    deadline = monotonic() + SCAN_S
    size = 0
    for commit in commits:
        found = selected(commit, after, selection, form)
        if found and first_at is None:
            first_at = commit.at
        if limit is not None and len(wires) + len(found) > limit:
            found = found[: limit - len(wires)]
            last = found[-1][0] if found else event_id
            return Page(seen, last, [*wires, *(wire for _, wire in found)], first_at, complete=False)
        wires += (wire for _, wire in found)
        seen, event_id = commit.head, commit.last
        size += sum(_bytes(wire) for _, wire in found)
        # Without a filter the next commit, if there is one, tells whether more follows; with one it might be far.
        is_full = len(wires) == limit and not selection.everything
        if is_full or size > PAGE_BYTES or monotonic() > deadline:
            return Page(seen, event_id, wires, first_at, complete=False)
    return Page(seen, event_id, wires, first_at)


def collected_back(
    commits: Iterable[Commit], head: Head, after: int, selection: Selection, limit: int, form: Form | None = None
) -> Page:
    """The newest `limit` selected events of `commits`, which go back from `head`, after `after`; newest first."""
    wires: list[str] = []
    size = 0
    for commit in commits:
        if commit.last <= after:
            break
        found = selected(commit, after, selection, form)
        wires += (wire for _, wire in reversed(found))
        size += sum(_bytes(wire) for _, wire in found)
        if len(wires) >= limit or size > PAGE_BYTES:
            break
    return Page(head, head.last, wires[:limit])


def selected(commit: Commit, after: int, selection: Selection, form: Form | None = None) -> list[tuple[int, str]]:
    """EventId and JSON of the commit's events that are selected and come after `after`."""
    if form is None and selection.everything and after < commit.at:
        return list(enumerate(commit.wires, start=commit.at))
    events = (event for event in commit.that_may(selection.may_select) if event.event_id > after)
    events = (event for event in events if selection.selects(event))
    return [(event.event_id, form(event) if form else event.wire) for event in events]


def commits_for(limit: int | None, selection: Selection) -> int | None:
    """Each commit has an event, so without a filter this many are enough: one may be read already, one shows more."""
    return limit + 2 if limit is not None and selection.everything else None


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
