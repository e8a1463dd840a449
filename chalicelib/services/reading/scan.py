"""Read: go through a log in order, from any position, and know how far one has seen."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, chained
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.page import Page
from chalicelib.services.ports import Log

PAGE_BYTES = 4 * 1024 * 1024
"""An answer stays below Lambda's 6 MB, quotes and escapes included."""
SCAN_S = 15.0
"""How long one request may look for events that do not come."""

Form = Callable[[Event], str]
"""How an event is written for whoever reads; an empty text leaves it out."""
Frame = Callable[[int, str], str]
"""How the text of an event is put on the wire, with its EventId."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events, how many, and how they are written."""

    selection: Selection
    limit: int | None = None
    form: Form | None = None
    """None: as core events."""
    frame: Frame | None = None
    """None: as they are."""
    most_bytes: int = PAGE_BYTES


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
    return collected(commits, start, after, Wanted(selection, limit), monotonic)


def collected(
    commits: Iterable[Commit],
    start: Head,
    after: int,
    wanted: Wanted,
    monotonic: Callable[[], float] = time.monotonic,
) -> Page:
    """The selected events of `commits`, which come after `start`, whose EventId is greater than `after`."""
    limit = wanted.limit
    wires: list[str] = []
    seen, event_id, first_at = start, start.last, None
    deadline = monotonic() + SCAN_S
    size = 0
    for commit in commits:
        event_ids, found = selected(commit, after, wanted)
        if found and first_at is None:
            first_at = commit.at
        if limit is not None and len(wires) + len(found) > limit:
            room = limit - len(wires)
            last = event_ids[room - 1] if room else event_id
            return Page(seen, last, [*wires, *found[:room]], first_at, complete=False)
        wires += found
        seen, event_id = commit.head, commit.last
        size += _bytes(commit, found)
        # Without a filter the next commit, if there is one, tells whether more follows; with one it might be far.
        is_full = len(wires) == limit and not wanted.selection.everything
        if is_full or size > wanted.most_bytes or monotonic() > deadline:
            return Page(seen, event_id, wires, first_at, complete=False)
    return Page(seen, event_id, wires, first_at)


def collected_back(commits: Iterable[Commit], head: Head, after: int, wanted: Wanted) -> Page:
    """The newest selected events of `commits`, which go back from `head`, after `after`; newest first."""
    wires: list[str] = []
    limit = -(wanted.limit or 0)
    size = 0
    for commit in commits:
        if commit.last <= after:
            break
        _, found = selected(commit, after, wanted)
        wires += reversed(found)
        size += _bytes(commit, found)
        if len(wires) >= limit or size > PAGE_BYTES:
            break
    return Page(head, head.last, wires[:limit])


def selected(commit: Commit, after: int, wanted: Wanted) -> tuple[Sequence[int], list[str]]:
    """EventIds and texts of the commit's events that are selected and come after `after`."""
    event_ids, texts = _texts(commit, after, wanted)
    return event_ids, list(map(wanted.frame, event_ids, texts)) if wanted.frame else texts


def _texts(commit: Commit, after: int, wanted: Wanted) -> tuple[Sequence[int], list[str]]:
    selection, form = wanted.selection, wanted.form
    if form is None and selection.everything and after < commit.at:
        return range(commit.at, commit.last + 1), commit.wires
    event_ids: list[int] = []
    texts: list[str] = []
    for event in commit.numbered(selection.candidates(commit.body)):
        if event.event_id > after and selection.selects(event):
            text = form(event) if form else event.wire
            if text:
                event_ids.append(event.event_id)
                texts.append(text)
    return event_ids, texts


def commits_for(limit: int | None, selection: Selection) -> int | None:
    """Each commit has an event, so without a filter this many are enough: one may be read already, one shows more."""
    return limit + 2 if limit is not None and selection.everything else None


def _bytes(commit: Commit, texts: Iterable[str]) -> int:
    """How much these texts of the commit are on the wire."""
    return sum(map(len, texts if commit.body.isascii() else map(str.encode, texts)))
