"""OrderStatistics: how many orders are in which state, and when that changes."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from chalicelib.domain import vocabularies
from chalicelib.domain.events.head import Head
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectSelection
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.vocabularies.scheduler.statistics import Statistics, changed_text, counted, statistics
from chalicelib.services.feeds.suspension import Reading, Wait
from chalicelib.services.objects.snapshots import snapshot, state_at, touched
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

ORDERS = "order"


def order_statistics(present: LogReader, server: int, query: PathQuery) -> tuple[int, Statistics]:
    """The statistics of the orders that `query` means, and the EventId as of which they are right."""
    found = snapshot(present, server, ORDERS, query)
    return found.event_id, statistics(found.states.values())


@dataclass(frozen=True, slots=True)
class StatisticsQuery:
    """Whose statistics, since when, and how long to wait for a change."""

    server: int
    query: PathQuery
    after: int | None
    """None: since now."""
    timeout_s: float


def order_statistics_changed(
    wanted: StatisticsQuery,
    present: LogReader,
    retention: Retention,
    monotonic: Callable[[], float] = time.monotonic,
) -> Reading[EventSeq]:
    """Exactly one event as soon as the statistics differ from what they were at `after`; computed, not stored."""
    deadline = monotonic() + wanted.timeout_s
    server, query, after = wanted.server, wanted.query, wanted.after
    forgotten = retention.forgotten(server).last
    if after is not None and after < forgotten:
        return Torn(forgotten)
    about_them = ObjectSelection(collection=ORDERS, query=query)
    since = present.log.head(server).last if after is None else after
    for turn in count():
        seen, differ = _differ(present, server, query, since)
        if differ:
            event_id, now = order_statistics(present, server, query)
            return NonEmpty(event_id, [changed_text(event_id, now)])
        remaining_s = deadline - monotonic()
        if remaining_s <= 0 or (yield Wait(seen, about_them, remaining_s, turn)) is None:
            return Empty(seen.last)
    raise AssertionError("count() does not end")


def _differ(present: LogReader, server: int, query: PathQuery, since: int) -> tuple[Head, bool]:
    """How far the log was looked through, and whether the orders touched since then are counted otherwise now."""

    def wanted(ref: ObjectRef) -> bool:
        return ref.collection == ORDERS and vocabularies.matches(query, ref)

    seen = present.at(server, since)
    refs: set[ObjectRef] = set()
    for commit in present.after(seen):
        refs.update(touched(commit, wanted))
        seen = commit.head
    difference: Counter[str] = Counter()
    for ref in refs:
        before, now = state_at(present, server, ref, since), state_at(present, server, ref, seen.last)
        difference.update(counted(now) if now else ())
        difference.subtract(counted(before) if before else ())
    return seen, any(difference.values())
