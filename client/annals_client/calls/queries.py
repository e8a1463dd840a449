"""The three queries; those that come in pages go on by themselves."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from annals_client.calls.events import selection
from annals_client.sans_io import Give, Manners, Request, Steps, Values, told
from annals_client.values import Event, Id
from annals_client.wire import event_of, time_text

PAGE = 4096
"""The most that one answer has."""


def latest(manners: Manners, types: Sequence[str] | None = None) -> Steps[tuple[Event, ...]]:
    """The last event of each type."""
    said = yield from told(manners, Request("GET", "/events/latest", selection(types, None)))
    return tuple(event_of(event) for event in said["events"])


def timeseries(
    manners: Manners,
    types: Sequence[str] | None = None,
    *,
    t_from: datetime | None = None,
    t_to: datetime | None = None,
    source_t_from: datetime | None = None,
    source_t_to: datetime | None = None,
    order: Literal["ascending", "descending"] = "descending",
    order_by: Literal["timestamp", "sourceTimestamp"] = "timestamp",
    max_results: int | None = None,
    page: int = PAGE,
) -> Values[Event]:
    """Events by time, the newest first unless `order` says otherwise; all of them, or `max_results`."""
    times = {"tFrom": t_from, "tTo": t_to, "sourceTFrom": source_t_from, "sourceTTo": source_t_to}
    given = [(name, time_text(time)) for name, time in times.items() if time is not None]
    parameters = [*selection(types, None), *given, ("order", order), ("orderBy", order_by)]
    return _pages(manners, "/events/timeseries", parameters, None, max_results, page)


def server(
    manners: Manners,
    *,
    number: int | None = None,
    after: Id | None = None,
    max_results: int | None = None,
    page: int = PAGE,
) -> Values[Event]:
    """The events of one log by id, after the one with the id `after`; all of them, or `max_results`."""
    parameters = [] if number is None else [("server", str(number))]
    return _pages(manners, "/events/server", parameters, after, max_results, page)


def _pages(
    manners: Manners,
    path: str,
    parameters: Sequence[tuple[str, str]],
    last: Id | None,
    max_results: int | None,
    page: int,
) -> Values[Event]:
    """One page after the other, each after the last event of the one before."""
    left = max_results
    while left is None or left > 0:
        size = page if left is None else min(page, left)
        position = [] if last is None else [("lastEventId", str(last))]
        asked = [*parameters, ("maxResults", str(size)), *position]
        said = yield from told(manners, Request("GET", path, asked))
        events = [event_of(event) for event in said["events"]]
        for event in events:
            yield Give(event)
        if not said["moreFollows"] or not events:
            return
        last, left = events[-1].id, None if left is None else left - len(events)
