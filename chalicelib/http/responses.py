"""Responses. Events are inserted as the JSON text that the log stores, without decoding them."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from chalice.app import Response
from pydantic_core import from_json, to_json

from chalicelib.domain import sse, timestamps
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.log.outcome import SubmittedAppend, unwrap
from chalicelib.domain.notifications.delivery import (
    AppMessage,
    AppriseMessage,
    BusEvent,
    Mail,
    Message,
    Parked,
    SlackPost,
    WebhookPost,
)
from chalicelib.domain.objects.cursor import Cursor
from chalicelib.domain.objects.list_cursor import ListCursor
from chalicelib.domain.objects.ref import State
from chalicelib.domain.objects.summary import ObjectSummary
from chalicelib.domain.organizations.organization import Organization
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.queries.page import Page

Headers = dict[str, str | list[str]]

DATA: Headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Headers of all responses with data: no caches, and no guesses of browsers about the content."""
JSON: Headers = {"Content-Type": "application/json", **DATA}
NDJSON: Headers = {"Content-Type": "application/x-ndjson", **DATA}
SSE: Headers = {"Content-Type": "text/event-stream", **DATA, "X-Accel-Buffering": "no"}

IDEMPOTENT_REPLAYED: Headers = {"Idempotent-Replayed": "true"}
RETURN_MINIMAL = "return=minimal"
"""The preference (RFC 7240) of publishers that do not need their events in the response."""
MINIMAL_JSON: Headers = {**JSON, "Preference-Applied": RETURN_MINIMAL}

POSITION_INTERVAL_US = 3_600_000_000
"""A stream without matching events sends its position after it has scanned events of this period."""


class DeferredResponse(Response):
    """A response that is rendered once `future` is done. Its headers are added to the rendered ones.

    The embedded server writes the appends of many requests together before it renders their responses.
    """

    def __init__(self, future: Future[Any], render: Callable[[Any], Response]) -> None:
        super().__init__("")
        self.future = future
        self.render = render


class SuspendableResponse(Response):
    """A response produced by a generator that can be suspended (see `services.feeds.suspension`).

    `steps` yields pieces of text, which are sent at once, or returns a single complete response. The headers are
    added to those of a single response.
    """

    def __init__(self, steps: Generator[Any, Any, Response | None], headers: Headers | None = None) -> None:
        super().__init__("", headers)
        self.steps = steps
        self.is_stream = headers is not None


def append_response(outcome: SubmittedAppend | Appended | Head | Future[Head], is_minimal: bool = False) -> Response:
    """The response to a publisher, deferred until its events are written."""
    match outcome:
        case SubmittedAppend(group, place):
            return DeferredResponse(group, lambda outcomes: _render_append(unwrap(outcomes[place]), is_minimal))
        case Future():
            return DeferredResponse(outcome, lambda head: _render_append(head, is_minimal))
        case _:
            return _render_append(outcome, is_minimal)


def _render_append(outcome: Appended | Head, is_minimal: bool, event_count: int | None = None) -> Response:
    """201 with the numbered events; 200 if nothing was written, because of an empty or a repeated request.

    `event_count` is the number of the publisher's own events, which are the first of the commit. None: all of them.
    A minimal response has no events, only the position of the last one.
    """
    headers = MINIMAL_JSON if is_minimal else JSON
    match outcome:
        case Appended(commit, replayed):
            last_event_id = commit.at_us + (commit.event_count if event_count is None else event_count) - 1
            texts = [] if is_minimal else commit.wire_texts[:event_count]
            text = _events_json(texts, last_event_id, commit.position_of(last_event_id))
            return Response(text, {**headers, **IDEMPOTENT_REPLAYED} if replayed else headers, 200 if replayed else 201)
        case Head():
            return Response(_append_json(outcome), headers, 200)


def job_append_response(
    outcome: Appended | Head,
    event_count: int,
    ignored: list[dict[str, Any]],
    ids: Sequence[int],
    is_minimal: bool,
) -> Response:
    """The response to a publisher of job events: its own events, those that were not written, and assigned ids."""
    response = _render_append(outcome, is_minimal, event_count)
    for name, values in (("ignored", ignored), ("ids", ids)):
        if values:
            response.body = f'{str(response.body)[:-1]},"{name}":{to_json(values).decode()}}}'
    return response


def append_value(outcome: Appended | Head) -> dict[str, Any]:
    """The JSON of `append_response` as a value, for the Lambda function `publish`."""
    value: dict[str, Any] = from_json(_append_json(outcome))
    return value


def event_seq(seq: EventSeq, is_core: bool = False, facts: Mapping[str, int] | None = None) -> Response:
    """A page of a feed as JobScheduler's EventSeq. In feeds of core events it has two members more.

    `facts` are further members.
    """
    match seq:
        case NonEmpty(event_id, wires, more_follows):
            position = f'"eventId":{event_id}{_core_facts(seq, more_follows) if is_core else ""}'
            text = f'{{"TYPE":"NonEmpty",{position},"eventSnapshots":[{",".join(wires)}]}}'
        case Torn(event_id):
            text = _torn_json(event_id, _core_facts(seq, more_follows=True) if is_core else "")
        case Empty(last, more_follows):
            position = f'"eventId":{last},"lastEventId":{last}{_core_facts(seq, more_follows) if is_core else ""}'
            text = f'{{"TYPE":"Empty",{position}}}'
    if facts:
        text = f"{text[:-1]},{to_json(facts).decode()[1:]}"
    return Response(text, JSON, 200)


def ndjson_lines(seq: EventSeq | None) -> str:
    """A page of a feed as NDJSON, one event per line. None is a heartbeat, an empty line."""
    match seq:
        case None:
            return "\n"
        case NonEmpty(_, wires):
            return "\n".join((*wires, ""))
        case Empty():
            return ""
        case Torn(event_id):
            return f"{_torn_json(event_id)}\n"


def sse_text(seq: EventSeq | None, after: int, is_page: bool) -> str:
    """A page of a feed whose events are already formatted as server-sent events. `after` is the previous position."""
    end = sse.RETRY if is_page else ""
    match seq:
        case None:
            return sse.KEEPALIVE
        case NonEmpty(_, wires):
            return "".join(wires) + end
        case Empty(last_event_id):
            return end if last_event_id < after + POSITION_INTERVAL_US else f"{sse.format_position(last_event_id)}{end}"
        case Torn(event_id):
            return f"{sse.format_event(event_id, _torn_json(event_id), 'Torn')}{end}"


def query_page(page: Page) -> Response:
    """The result of one of Hat's queries."""
    more = "false" if page.is_complete else "true"
    text = f'{{"events":[{",".join(page.texts)}],"moreFollows":{more},"eventId":{page.event_id}}}'
    return Response(text, JSON, 200)


def object_list(event_id: int, texts: Iterable[str], name: str) -> Response:
    """A snapshot of several objects, which are JSON texts, listed under `name`."""
    return Response(f'{{"{name}":[{",".join(texts)}],"eventId":{event_id}}}', JSON, 200)


def object_page(event_id: int, texts: Iterable[str], cursor: Cursor | None, name: str) -> Response:
    """A page of a snapshot. The objects are JSON texts, listed under `name`."""
    next_page = "null" if cursor is None else f'"{cursor}"'
    return Response(f'{{"{name}":[{",".join(texts)}],"eventId":{event_id},"cursor":{next_page}}}', JSON, 200)


def single_object(event_id: int, state: State) -> Response:
    """A snapshot of one object: its members and the `eventId` of the snapshot."""
    return json_response({"eventId": event_id, **state})


def object_summaries(
    event_id: int,
    counts: Mapping[str, int] | None,
    results: Mapping[str, int] | None,
    elements: Iterable[ObjectSummary],
    cursor: ListCursor | None,
) -> Response:
    """A page of a list. Numbers that are not known are null."""
    return json_response(
        {
            "eventId": event_id,
            "counts": counts,
            "results": results,
            "moreFollows": cursor is not None,
            "cursor": None if cursor is None else str(cursor),
            "elements": [summary.json for summary in elements],
        }
    )


def json_response(value: object, status: int = 200) -> Response:
    return Response(to_json(value).decode(), JSON, status)


def failed_deliveries(parked: Iterable[Parked]) -> Response:
    failures = [
        {
            "id": failure.delivery.id,
            "event": failure.delivery.event._asdict(),
            "key": failure.delivery.key,
            "address": failure.delivery.address,
            "replay": failure.delivery.replay or None,
            "tries": failure.tries,
            "error": failure.error,
            "at": timestamps.iso(failure.at_ms * 1000),
        }
        for failure in parked
    ]
    return json_response({"failures": failures})


def replay_progress(replay: str, event_id: int, until: int, deliveries: int, is_done: bool) -> Response:
    """The progress of a replay. A request with these values continues it."""
    progress = {"replay": replay, "eventId": event_id, "until": until, "deliveries": deliveries, "done": is_done}
    return json_response(progress)


def preview(event: Event, skip_reason: str | None, message: Message, addresses: tuple[str, ...]) -> Response:
    """The message that an observer would send, and the reason if it would not send it."""
    match message:
        case Mail():
            parts = {"subject": message.subject, "text": message.text, "html": message.html}
            content: object = {**parts, "to": addresses}
        case SlackPost() | WebhookPost() | BusEvent():
            content = {"json": from_json(message.json)}
        case AppriseMessage():
            content = {"subject": message.subject, "body": message.body}
        case AppMessage():
            content = {"subject": message.subject, "body": message.body, "users": addresses}
    return json_response(
        {"event": from_json(event.wire_text), "wouldTell": skip_reason is None, "why": skip_reason, "message": content}
    )


def reports(entries: Iterable[tuple[str, int, int, str | None]]) -> Response:
    """Reports, each given as name, time, EventId and link."""
    values = [{"name": name, "at": timestamps.iso(at), "eventId": id_, "link": link} for name, at, id_, link in entries]
    return json_response({"reports": values})


def organization(organization: Organization, is_new: bool) -> Response:
    return json_response({"organization": organization.name, "server": organization.server}, 201 if is_new else 200)


def health(heads: Iterable[Head], version: str) -> Response:
    return json_response({"status": "ok", "version": version, "heads": [_head_value(head) for head in heads]})


def log_status_value(head: Head, first_kept: int | None) -> dict[str, Any]:
    """The head of a log and its first retained event, as part of a response."""
    at = None if not head.session else timestamps.iso(head.last_event_id - head.instance + 1)
    return {"head": {**_head_value(head), "timestamp": at}, "events": None, "firstKept": first_kept}


def _append_json(outcome: Appended | Head) -> str:
    match outcome:
        case Appended(commit):
            return _events_json(commit.wire_texts, commit.last_event_id, commit.head.position)
        case Head(last_event_id=last):
            return _events_json([], last)


def _events_json(texts: Iterable[str], event_id: int, position: int | None = None) -> str:
    return f'{{"events":[{",".join(texts)}]{_position_json(position)},"eventId":{event_id}}}'


def _torn_json(event_id: int, facts: str = "") -> str:
    return f'{{"TYPE":"Torn","eventId":{event_id}{facts}}}'


def _core_facts(seq: EventSeq, more_follows: bool) -> str:
    return f',"moreFollows":{"true" if more_follows else "false"}{_position_json(seq.position)}'


def _position_json(position: int | None) -> str:
    return "" if position is None else f',"position":{position}'


def _head_value(head: Head) -> dict[str, object]:
    return {"id": head.id._asdict(), "eventId": head.last_event_id}
