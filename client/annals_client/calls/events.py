"""Publish and follow."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from annals_client.errors import Torn, Unexpected
from annals_client.sans_io import ANSWER_S, Give, Manners, Pause, Request, Steps, Values, ask
from annals_client.values import Condition, Event, Newest, NewEvent, Published
from annals_client.wire import condition_json, event_of, new_event_json, published_of, several

POLL_S = 25.0
"""How long one request of a follower waits: what every gateway allows."""
HASTE_S = 1.0
"""Who is told sooner that there is nothing new must not ask again at once: the server ends, or its gateway is hasty."""


def publish(
    manners: Manners,
    events: Iterable[NewEvent | Mapping[str, Any]],
    *,
    condition: Condition | None = None,
    vocabulary: str | None = None,
    idempotency_key: str | None = None,
) -> Steps[Published]:
    """Append events in one commit: whole or not at all, and once, however often the request has to be repeated.

    For that it has an idempotency key, made here unless you give one. With `vocabulary` the events are mappings in that
    vocabulary's own JSON.
    """
    body: dict[str, Any] = {"events": [new_event_json(event) for event in events]}
    if condition is not None:
        body["condition"] = condition_json(condition)
    headers = {"Idempotency-Key": idempotency_key or manners.new_key()}
    path = f"/events/{vocabulary}" if vocabulary else "/events"
    answer = yield from ask(manners, Request("POST", path, headers=headers, body=body))
    return published_of(answer.json(), is_repeated=answer.headers.get("idempotent-replayed") == "true")


def newest(
    manners: Manners, count: int, *, types: Sequence[str] | None = None, keys: Sequence[str] | None = None
) -> Steps[Newest]:
    """The last `count` events, oldest first; follow after its `event_id` to see all that come after them."""
    parameters = [*selection(types, keys), ("limit", str(-max(count, 1)))]
    answer = yield from ask(manners, Request("GET", "/events", parameters))
    said = answer.json()
    found = tuple(event_of(event) for event in reversed(said.get("eventSnapshots", ())))
    return Newest(found if count > 0 else (), said["eventId"])


def follow(
    manners: Manners,
    *,
    types: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    after: int | None = None,
    to_now: bool = False,
) -> Values[Event]:
    """Every event after a position, in order, each once: those there are, then those to come.

    `after` is an `event_id`: of a snapshot, of the last event you have seen; without it, from the first event that is
    kept. `to_now` ends it when there are no more, otherwise it goes on for ever: once there was a first answer it
    survives lost connections and restarts of the server, however long they take. `Torn` is raised if something after
    the position is no longer kept.

    It is a long poll. An answer is had whole or not at all and says how far the server has looked, so the next
    request begins exactly there, also where nothing was selected.
    """
    waiting_s = 0.0 if to_now else POLL_S
    deadline_s = manners.deadline_s
    while True:
        position = [] if after is None else [("after", str(after))]
        waiting = [("timeout", f"{waiting_s}s")] if waiting_s else []
        parameters = [*selection(types, keys), *position, *waiting]
        request = Request("GET", "/events", parameters, timeout_s=waiting_s + ANSWER_S)
        asked_at = manners.clock()
        answer = yield from ask(manners, request, deadline_s)
        events, after = _read(answer.json())
        for event in events:
            yield Give(event)
        if to_now and not events:
            return
        if not events and manners.clock() - asked_at < HASTE_S:
            yield Pause(manners.jittered(HASTE_S), "the server does not wait")
        deadline_s = manners.deadline_s if to_now else math.inf


def selection(types: Sequence[str] | None, keys: Sequence[str] | None) -> list[tuple[str, str]]:
    """Types and keys as parameters; None selects all. An empty list would select nothing: nobody can mean that."""
    named = {"types": types, "keys": keys}
    empty = [name for name, values in named.items() if values is not None and not values]
    if empty:
        raise ValueError(f"{empty[0]} is empty, so nothing would be selected; leave it out to select all")
    return [(name, value) for name, values in named.items() if values is not None for value in several(values)]


def _read(said: Mapping[str, Any]) -> tuple[list[Event], int]:
    match said:
        case {"TYPE": "NonEmpty", "eventId": int(event_id), "eventSnapshots": [*events]}:
            return [event_of(event) for event in events], event_id
        case {"TYPE": "Empty", "eventId": int(event_id)}:
            return [], event_id
        case {"TYPE": "Torn", "eventId": int(event_id)}:
            raise Torn(event_id)
        case _:
            raise Unexpected(200, "this is no sequence of events")
