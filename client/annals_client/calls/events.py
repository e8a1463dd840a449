"""Publish and follow."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from annals_client.errors import Torn, Unexpected
from annals_client.sans_io import RESPONSE_TIMEOUT_S, Emit, Pause, Request, RetryPolicy, Steps, Values, send
from annals_client.values import Condition, Event, Item, Newest, NewEvent, Published
from annals_client.wire import condition_json, filter_lists, items_json, new_event_json, parse_event, parse_published

LONG_POLL_TIMEOUT_S = 25.0
"""Timeout of one long poll. Every gateway allows this much."""
MIN_POLL_INTERVAL_S = 1.0
"""Pause after an empty response that came sooner: the server is stopping, or a gateway cuts the poll short."""


def publish(
    policy: RetryPolicy,
    events: Iterable[NewEvent | Mapping[str, Any]],
    *,
    condition: Condition | None = None,
    vocabulary: str | None = None,
    idempotency_key: str | None = None,
) -> Steps[Published]:
    """Append events atomically in one commit, exactly once even if the request is retried.

    An idempotency key is generated unless one is given. With `vocabulary`, the events are mappings in the JSON format
    of that vocabulary.
    """
    body: dict[str, Any] = {"events": [new_event_json(event) for event in events]}
    if condition is not None:
        body["condition"] = condition_json(condition)
    headers = {"Idempotency-Key": idempotency_key or policy.new_key()}
    path = f"/events/{vocabulary}" if vocabulary else "/events"
    response = yield from send(policy, Request("POST", path, headers=headers, body=body))
    is_repeated = response.headers.get("idempotent-replayed") == "true"
    try:
        return parse_published(response.json(), is_repeated)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unexpected(response.status, "the response does not list the published events") from error


def newest(
    policy: RetryPolicy,
    count: int,
    *,
    types: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    before: int | None = None,
) -> Steps[Newest]:
    """The last `count` events, oldest first. Follow after its `event_id` to continue.

    With `before`, the last events before that `event_id`.
    """
    filters = filter_parameters(types, keys, tags)
    events: list[Event] = []
    event_id: int | None = None
    while True:
        position = [] if before is None else [("before", str(before))]
        limit = ("limit", str(min(len(events) - count, -1)))
        response = yield from send(policy, Request("GET", "/events", [*filters, *position, limit]))
        document = response.json()
        page = [parse_event(event) for event in document.get("eventSnapshots", ())]
        more_follows = document.get("moreFollows", False)
        event_id = document["eventId"] if event_id is None else event_id
        if count <= 0:
            return Newest((), event_id, bool(page))
        events += page
        if len(events) >= count or not page or not more_follows:
            return Newest(tuple(reversed(events)), event_id, more_follows)
        before = page[-1].event_id  # The size of a response is limited.


def follow(
    policy: RetryPolicy,
    *,
    types: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    items: Sequence[Item] | None = None,
    after: int | None = None,
    to_now: bool = False,
) -> Values[Event]:
    """Iterate over the events after a position, in order and each exactly once: stored events first, then new ones.

    `after` is the `event_id` of a snapshot or of the last event you handled. Without it, iteration starts with the
    oldest retained event. With `to_now` it ends at the end of the log. Otherwise it never ends: after the first
    response it survives lost connections and server restarts of any length. Raises `Torn` if events after the position
    were removed by retention, and `Unexpected` if the server repeats an event or goes back.

    Events have one of `types`, one of `keys` and all of `tags`, or match at least one of `items`.

    Implemented as a long poll. Each response states the position up to which the server has searched, and the next
    request continues there even if no event matched.
    """
    poll_s = 0.0 if to_now else LONG_POLL_TIMEOUT_S
    deadline_s = policy.deadline_s
    parameters = filter_parameters(types, keys, tags)
    if items is not None and parameters:
        raise ValueError("give either items, or types, keys and tags")
    while True:
        position = {} if after is None else {"after": after}
        timeout = {"timeout": f"{poll_s}s"} if poll_s else {}
        request = _feed_request(parameters, items, {**position, **timeout}, poll_s + RESPONSE_TIMEOUT_S)
        sent_at = policy.clock()
        response = yield from send(policy, request, deadline_s)
        events, next_after = _parse_page(response.json())
        for event in events:
            if after is not None and event.event_id <= after:
                raise Unexpected(response.status, f"the server returned event {event.event_id} after event {after}")
            after = event.event_id
            yield Emit(event)
        after = next_after
        if to_now and not events:
            return
        if not events and policy.clock() - sent_at < MIN_POLL_INTERVAL_S:
            yield Pause(policy.jitter(MIN_POLL_INTERVAL_S), "the server does not hold the long poll")
        deadline_s = policy.deadline_s if to_now else math.inf


def filter_parameters(
    types: Sequence[str] | None, keys: Sequence[str] | None, tags: Sequence[str] | None = None
) -> list[tuple[str, str]]:
    """Query parameters for types, keys and tags. None selects all. Raises `ValueError` for an empty list."""
    return [(name, value) for name, values in filter_lists(Item(types, keys, tags)).items() for value in values]


def _feed_request(
    parameters: list[tuple[str, str]], items: Sequence[Item] | None, options: Mapping[str, Any], timeout_s: float
) -> Request:
    if items is not None:
        return Request("POST", "/events/query", body={"items": items_json(items), **options}, timeout_s=timeout_s)
    values = [(name, str(value)) for name, value in options.items()]
    return Request("GET", "/events", [*parameters, *values], timeout_s=timeout_s)


def _parse_page(document: Mapping[str, Any]) -> tuple[list[Event], int]:
    match document:
        case {"TYPE": "NonEmpty", "eventId": int(event_id), "eventSnapshots": [*events]}:
            return [parse_event(event) for event in events], event_id
        case {"TYPE": "Empty", "eventId": int(event_id)}:
            return [], event_id
        case {"TYPE": "Torn", "eventId": int(event_id)}:
            raise Torn(event_id)
        case _:
            raise Unexpected(200, "the response is not a sequence of events")
