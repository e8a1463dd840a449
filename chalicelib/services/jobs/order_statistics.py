"""Order statistics: the number of orders in each state, and a wait for the next change."""

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
from chalicelib.domain.views.projection import group_by_object
from chalicelib.domain.vocabularies.scheduler.statistics import (
    Statistics,
    changed_event_text,
    count_orders,
    counters_for,
    statistics_from_counts,
)
from chalicelib.services.feeds.suspension import SuspendableRead, Wait
from chalicelib.services.objects.counting import count_folder, count_objects
from chalicelib.services.objects.object_range import TooManyRecords
from chalicelib.services.objects.snapshots import snapshot, state_at
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention, RetentionBoundary

ORDERS = "order"
MAX_READ_ORDERS = 2_000
"""In a folder with more stored orders, those in the list index are counted."""
MAX_COMPARED_ORDERS = 200
MAX_COMPARED_COMMITS = 5_000
"""If more orders or commits are to be compared, the statistics count as changed. Each order takes two reads."""


def order_statistics(
    reader: LogReader, server: int, query: PathQuery, boundary: RetentionBoundary
) -> tuple[int, Statistics]:
    """The statistics of the orders that match `query`, and the EventId as of which they hold.

    Raises `Busy`, and `BadInput` if there are too many orders in a folder.
    """
    counts = count_objects(reader, server, ORDERS, boundary) if query.matches_everything else None
    if counts is None:
        try:
            orders = snapshot(reader, server, ORDERS, query, MAX_READ_ORDERS)
        except TooManyRecords:
            counts = count_folder(reader, server, ORDERS, query, boundary)
        else:
            return orders.event_id, count_orders(orders.states.values())
    return counts.event_id, statistics_from_counts(counts.states, counts.types)


@dataclass(frozen=True, slots=True)
class StatisticsQuery:
    """Wait for a change of the statistics of the orders that match `query`."""

    server: int
    query: PathQuery
    after: int | None
    """Compare with the statistics as of this EventId. None: with the current ones."""
    timeout_s: float
    event_name: str = "OrderStatisticsChanged"
    """The name by which the client requested the event."""


def order_statistics_changed(
    statistics_query: StatisticsQuery,
    reader: LogReader,
    retention: Retention,
    monotonic: Callable[[], float] = time.monotonic,
) -> SuspendableRead[EventSeq]:
    """One event as soon as the statistics differ from those as of `after`. The event is computed and not stored.

    If too much has happened since `after` to compare, the event comes at once.
    """
    deadline = monotonic() + statistics_query.timeout_s
    server, query, after = statistics_query.server, statistics_query.query, statistics_query.after
    last_expired_id = retention.boundary(server).event_id
    if after is not None and after < last_expired_id:
        return Torn(last_expired_id)
    order_events = ObjectSelection(collection=ORDERS, query=query)
    since = reader.log.head(server).last_event_id if after is None else after
    for attempt in count():
        head, has_changed = _compare(reader, server, query, since)
        if has_changed:
            event_id, statistics = order_statistics(reader, server, query, retention.boundary(server))
            return NonEmpty(event_id, [changed_event_text(event_id, statistics_query.event_name, statistics)])
        remaining_s = deadline - monotonic()
        if remaining_s <= 0 or (yield Wait(head, order_events, remaining_s, attempt, is_expensive=True)) is None:
            return Empty(head.last_event_id)
    raise AssertionError("count() does not end")


def _compare(reader: LogReader, server: int, query: PathQuery, since: int) -> tuple[Head, bool]:
    """The head of the log, and whether the statistics as of it differ from those as of `since`.

    Also true if there is too much to compare.
    """

    def is_matching_order(ref: ObjectRef) -> bool:
        return ref.collection == ORDERS and vocabularies.matches(query, ref)

    head = reader.position_at(server, since)
    refs: set[ObjectRef] = set()
    last_session = head.session + MAX_COMPARED_COMMITS
    for commit in reader.tail(head):
        refs.update(group_by_object([commit], is_matching_order))
        head = commit.head
        if len(refs) > MAX_COMPARED_ORDERS or head.session > last_session:
            return head, True
    difference: Counter[str] = Counter()
    for ref in refs:
        before, now = state_at(reader, server, ref, since), state_at(reader, server, ref, head.last_event_id)
        difference.update(counters_for(now) if now else ())
        difference.subtract(counters_for(before) if before else ())
    return head, any(difference.values())
