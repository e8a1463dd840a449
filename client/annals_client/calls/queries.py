"""The three queries. Paged results are fetched as needed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from annals_client.calls.events import filter_parameters
from annals_client.sans_io import Emit, Request, RetryPolicy, Steps, Values, fetch_json
from annals_client.values import Event, Id
from annals_client.wire import format_time, parse_event

MAX_PAGE = 4096
"""Maximum number of events per response."""


def latest(policy: RetryPolicy, types: Sequence[str] | None = None) -> Steps[tuple[Event, ...]]:
    """The last event of each type."""
    parameters, position = filter_parameters(types, None), list[tuple[str, str]]()
    latest_events: dict[tuple[str, ...], Event] = {}
    while True:
        document = yield from fetch_json(policy, Request("GET", "/events/latest", [*parameters, *position]))
        events = [parse_event(event) for event in document["events"]]
        for event in events:
            # A type that gets a new event meanwhile is in a later page again.
            latest_events.pop(event.type, None)
            latest_events[event.type] = event
        if not document["moreFollows"] or not events:
            return tuple(latest_events.values())
        position = [("lastEventId", str(events[-1].id))]


def timeseries(
    policy: RetryPolicy,
    types: Sequence[str] | None = None,
    *,
    t_from: datetime | None = None,
    t_to: datetime | None = None,
    source_t_from: datetime | None = None,
    source_t_to: datetime | None = None,
    order: Literal["ascending", "descending"] = "descending",
    order_by: Literal["timestamp", "sourceTimestamp"] = "timestamp",
    max_results: int | None = None,
    page: int = MAX_PAGE,
) -> Values[Event]:
    """Iterate over events by time, newest first by default; all of them, or at most `max_results`."""
    times = {"tFrom": t_from, "tTo": t_to, "sourceTFrom": source_t_from, "sourceTTo": source_t_to}
    time_parameters = [(name, format_time(time)) for name, time in times.items() if time is not None]
    parameters = [*filter_parameters(types, None), *time_parameters, ("order", order), ("orderBy", order_by)]
    return _pages(policy, "/events/timeseries", parameters, None, max_results, page)


def server(
    policy: RetryPolicy,
    *,
    number: int | None = None,
    after: Id | None = None,
    max_results: int | None = None,
    page: int = MAX_PAGE,
) -> Values[Event]:
    """Iterate over the events of one log by id, after the id `after`; all of them, or at most `max_results`."""
    parameters = [] if number is None else [("server", str(number))]
    return _pages(policy, "/events/server", parameters, after, max_results, page)


def _pages(
    policy: RetryPolicy,
    path: str,
    parameters: Sequence[tuple[str, str]],
    last: Id | None,
    max_results: int | None,
    page: int,
) -> Values[Event]:
    remaining = max_results
    while remaining is None or remaining > 0:
        size = page if remaining is None else min(page, remaining)
        position = [] if last is None else [("lastEventId", str(last))]
        query = [*parameters, ("maxResults", str(size)), *position]
        document = yield from fetch_json(policy, Request("GET", path, query))
        events = [parse_event(event) for event in document["events"]]
        for event in events:
            yield Emit(event)
        if not document["moreFollows"] or not events:
            return
        last = events[-1].id
        remaining = None if remaining is None else remaining - len(events)
