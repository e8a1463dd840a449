"""Observers: configure, list deliveries, retry, replay."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote

from annals_client.errors import NotFound
from annals_client.sans_io import Emit, Request, RetryPolicy, Steps, Values, fetch_json
from annals_client.values import DeliveryEntry, Failure, Id, Observer, Replayed
from annals_client.wire import as_list, format_time, parse_replayed

MAX_PAGE = 1000
"""Maximum number of observers, or of failures, per response."""
MAX_DELIVERIES = 200
"""Maximum number of deliveries per response."""


def observers(policy: RetryPolicy) -> Steps[tuple[Observer, ...]]:
    """The observers you may see: all for admins, otherwise your own."""
    document = yield from fetch_json(policy, Request("GET", "/observers"))
    found = list[Observer](document["observers"])
    while document.get("moreFollows"):
        position = [("limit", str(MAX_PAGE)), ("after", found[-1]["name"])]
        document = yield from fetch_json(policy, Request("GET", "/observers", position))
        found += document["observers"]
    return tuple(found)


def get(policy: RetryPolicy, name: str) -> Steps[Observer]:
    """An observer with the state of its deliveries."""
    document = yield from fetch_json(policy, Request("GET", _path(name)))
    return cast(Observer, document)


def put(policy: RetryPolicy, name: str, configuration: Mapping[str, Any]) -> Steps[Observer]:
    """Create or change an observer."""
    document = yield from fetch_json(policy, Request("PUT", _path(name), body=dict(configuration)))
    return cast(Observer, document)


def delete(policy: RetryPolicy, name: str) -> Steps[None]:
    """Delete an observer."""
    try:
        yield from fetch_json(policy, Request("DELETE", _path(name)))
    except NotFound as error:
        # After a retry, the first attempt may have deleted it.
        if error.tries == 1:
            raise


def snooze(policy: RetryPolicy, name: str, until: datetime | None) -> Steps[Observer]:
    """Hold all messages of an observer until a time. None ends the snooze."""
    body = {"until": None if until is None else format_time(until)}
    document = yield from fetch_json(policy, Request("POST", _path(name, "/snooze"), body=body))
    return cast(Observer, document)


def failures(policy: RetryPolicy, name: str, *, page: int = MAX_PAGE) -> Values[Failure]:
    """Iterate over all deliveries that are not retried any more."""
    last: str | None = None
    while True:
        position = [] if last is None else [("after", last)]
        request = Request("GET", _path(name, "/failures"), [("limit", str(page)), *position])
        document = yield from fetch_json(policy, request)
        page_failures: list[Failure] = document["failures"]
        for failure in page_failures:
            yield Emit(failure)
        if len(page_failures) < page:
            return
        last = page_failures[-1]["id"]


def deliveries(policy: RetryPolicy, name: str, *, page: int = MAX_DELIVERIES) -> Values[DeliveryEntry]:
    """Iterate over the deliveries of an observer and their results, the newest first."""
    yield from _deliveries(policy, _path(name, "/deliveries"), [], page)


def deliveries_of(policy: RetryPolicy, event: Id | int, *, page: int = MAX_DELIVERIES) -> Values[DeliveryEntry]:
    """Iterate over the deliveries about an event, given by its id or `event_id`, by the observers you may see."""
    query = [("eventId" if isinstance(event, int) else "event", str(event))]
    yield from _deliveries(policy, "/deliveries", query, page)


def retry(policy: RetryPolicy, name: str, ids: Sequence[str] | None = None) -> Steps[int]:
    """Retry the given failed deliveries, or all. Returns their number."""
    body = {} if ids is None else {"ids": as_list(ids)}
    document = yield from fetch_json(policy, Request("POST", _path(name, "/retry"), body=body))
    retried: int = document["retried"]
    return retried


def replay(
    policy: RetryPolicy,
    name: str,
    *,
    after: int | None = None,
    since: datetime | None = None,
    until: int | None = None,
) -> Values[Replayed]:
    """Deliver the events after a position or time to an observer again, yielding the progress after each part.

    A generated replay name makes retries safe: a part is never delivered twice. The replay advances only while you
    iterate.
    """
    body: dict[str, Any] = {"replay": policy.new_key()}
    body |= {"since": format_time(since)} if since is not None else {"after": after or 0}
    body |= {} if until is None else {"until": until}
    deliveries = 0
    while True:
        document = yield from fetch_json(policy, Request("POST", _path(name, "/replay"), body=body))
        part = parse_replayed(document, deliveries)
        yield Emit(part)
        if part.is_done:
            return
        deliveries = part.deliveries
        body = {"replay": part.replay, "after": part.event_id, "until": part.until}


def _deliveries(policy: RetryPolicy, path: str, query: list[tuple[str, str]], page: int) -> Values[DeliveryEntry]:
    cursor: str | None = ""
    while cursor is not None:
        position = [("cursor", cursor)] if cursor else []
        document = yield from fetch_json(policy, Request("GET", path, [*query, ("limit", str(page)), *position]))
        for entry in document["deliveries"]:
            yield Emit(entry)
        cursor = document["cursor"]


def _path(name: str, suffix: str = "") -> str:
    return f"/observers/{quote(name, safe='')}{suffix}"
