"""Answers: JSON put together from text that was encoded when it was written."""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from chalice.app import Response
from pydantic_core import from_json, to_json

from chalicelib.domain import sse, timestamps
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.notifications.delivery import AppMessage, Mail, Message, Parked, SlackPost
from chalicelib.domain.objects.ref import State
from chalicelib.domain.objects.summary import Brief
from chalicelib.domain.organizations.organization import Organization
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.queries.page import Page
from chalicelib.services.log.append_future import Pending

Headers = dict[str, str | list[str]]

JSON: Headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
NDJSON: Headers = {"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"}
SSE: Headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}

REPLAYED: Headers = {"Idempotent-Replayed": "true"}
BRIEF = "return=minimal"
"""What a publisher prefers who has no use for its events, numbered (RFC 7240)."""

FAR_US = 3_600_000_000
"""A reader that found nothing in so much time is told how far it came."""


class Later(Response):
    """An answer that is known once something is written; the embedded server lets others join before it asks."""

    def __init__(self, settle: Callable[[], Response], pending: Pending) -> None:
        super().__init__("")
        self.settle = settle
        self.pending = pending


class Stepwise(Response):
    """An answer that takes steps, between which it waits; the embedded server takes them when it is time.

    `steps` makes pieces of text, to be sent at once, or else one response, which is the answer.
    """

    def __init__(self, steps: Generator[Any, Any, Response | None], headers: Headers | None = None) -> None:
        super().__init__("", headers)
        self.steps = steps
        self.is_stream = headers is not None


def published(pending: Pending, briefly: bool = False) -> Response:
    """What a publisher gets, at once or later."""
    if pending.done:
        return _published(pending.result(), briefly)
    return Later(lambda: _published(pending.result(), briefly), pending)


def _published(outcome: Appended | Head, briefly: bool) -> Response:
    """201 with the numbered events; 200 if nothing was written now: no events, or an earlier request's.

    Whoever wants it briefly gets no events, only how far the log goes with them.
    """
    headers = {**JSON, "Preference-Applied": BRIEF} if briefly else JSON
    match outcome:
        case Appended(commit, replayed):
            text = _text(commit.head if briefly else outcome)
            return Response(text, {**headers, **REPLAYED} if replayed else headers, 200 if replayed else 201)
        case Head():
            return Response(_text(outcome), headers, 200)


def published_jobs(outcome: Appended | Head, ignored: list[dict[str, Any]], briefly: bool) -> Response:
    """What a publisher of jobs gets: also what was not written, and why."""
    response = _published(outcome, briefly)
    if ignored:
        response.body = f'{str(response.body)[:-1]},"ignored":{to_json(ignored).decode()}}}'
    return response


def published_value(outcome: Appended | Head) -> dict[str, Any]:
    """What `published` tells, for callers of the plain function."""
    value: dict[str, Any] = from_json(_text(outcome))
    return value


def event_seq(seq: EventSeq) -> Response:
    """A feed's answer as JobScheduler's EventSeq."""
    match seq:
        case NonEmpty(event_id, wires):
            text = f'{{"TYPE":"NonEmpty","eventId":{event_id},"eventSnapshots":[{",".join(wires)}]}}'
        case Torn(event_id):
            text = _torn(event_id)
        case Empty(last_event_id):
            text = f'{{"TYPE":"Empty","eventId":{last_event_id},"lastEventId":{last_event_id}}}'
    return Response(text, JSON, 200)


def lines(seq: EventSeq | None) -> str:
    """A feed's answer as NDJSON, an event a line; an empty line is a heartbeat."""
    match seq:
        case None:
            return "\n"
        case NonEmpty(_, wires):
            return "\n".join((*wires, ""))
        case Empty():
            return ""
        case Torn(event_id):
            return f"{_torn(event_id)}\n"


def server_sent(seq: EventSeq | None, after: int, is_page: bool) -> str:
    """A feed's answer as server-sent events, which its events already are; `after` is where the reader was."""
    end = sse.RETRY if is_page else ""
    match seq:
        case None:
            return sse.KEEPALIVE
        case NonEmpty(_, wires):
            return "".join(wires) + end
        case Empty(last_event_id):
            return end if last_event_id < after + FAR_US else f"{sse.position(last_event_id)}{end}"
        case Torn(event_id):
            return f"{sse.frame(event_id, _torn(event_id), 'Torn')}{end}"


def queried(page: Page) -> Response:
    """The answer to one of Hat's queries."""
    more = "false" if page.complete else "true"
    text = f'{{"events":[{",".join(page.wires)}],"moreFollows":{more},"eventId":{page.event_id}}}'
    return Response(text, JSON, 200)


def objects(event_id: int, states: Iterable[State], name: str) -> Response:
    """A snapshot of several objects, listed under `name`."""
    return _json({name: list(states), "eventId": event_id}, 200)


def one_object(event_id: int, state: State) -> Response:
    """A snapshot of one object: its own members, stamped."""
    return _json({"eventId": event_id, **state}, 200)


def briefs(event_id: int, counts: Mapping[str, int], elements: Iterable[Brief], more_follows: bool) -> Response:
    """A list of objects in brief."""
    listed = [brief.json for brief in elements]
    return _json({"eventId": event_id, "counts": counts, "moreFollows": more_follows, "elements": listed}, 200)


def plain(value: object, status: int = 200) -> Response:
    """Some JSON that says all by itself."""
    return _json(value, status)


def failures(parked: Iterable[Parked]) -> Response:
    """Deliveries that nobody tries any more."""
    found = [
        {
            "id": one.delivery.id,
            "event": one.delivery.event._asdict(),
            "key": one.delivery.key,
            "address": one.delivery.address,
            "replay": one.delivery.replay or None,
            "tries": one.tries,
            "error": one.error,
            "at": timestamps.iso(one.at_ms * 1000),
        }
        for one in parked
    ]
    return _json({"failures": found}, 200)


def replayed(replay: str, event_id: int, until: int, deliveries: int, is_done: bool) -> Response:
    """How far a replay has come: whoever wants the rest asks again, with what this says."""
    found = {"replay": replay, "eventId": event_id, "until": until, "deliveries": deliveries, "done": is_done}
    return _json(found, 200)


def preview(event: Event, why: str | None, message: Message, addresses: tuple[str, ...]) -> Response:
    """What an observer would say about an event, and why it would not say it."""
    match message:
        case Mail():
            parts = {"subject": message.subject, "text": message.text, "html": message.html}
            shown: object = {**parts, "to": addresses}
        case SlackPost():
            shown = {"json": from_json(message.json)}
        case AppMessage():
            shown = {"subject": message.subject, "body": message.body, "users": addresses}
    return _json({"event": from_json(event.wire), "wouldTell": why is None, "why": why, "message": shown}, 200)


def reports(found: Iterable[tuple[str, int, int, str | None]]) -> Response:
    """Reports: name, time, EventId and link of each."""
    shown = [{"name": name, "at": timestamps.iso(at), "eventId": id_, "link": link} for name, at, id_, link in found]
    return _json({"reports": shown}, 200)


def organization(organization: Organization, created: bool) -> Response:
    """An organization; 201 if it is new."""
    return _json({"organization": organization.name, "server": organization.server}, 201 if created else 200)


def health(heads: Iterable[Head], version: str) -> Response:
    """Alive, and where the logs stand."""
    return _json({"status": "ok", "version": version, "heads": [_head(head) for head in heads]}, 200)


def standing_value(head: Head, first_kept: int | None) -> dict[str, Any]:
    """Where a log stands, as part of an answer."""
    at = None if not head.session else timestamps.iso(head.last - head.instance + 1)
    return {"head": {**_head(head), "timestamp": at}, "events": None, "firstKept": first_kept}


def _text(outcome: Appended | Head) -> str:
    match outcome:
        case Appended(commit):
            return f'{{"events":[{",".join(commit.wires)}],"eventId":{commit.last}}}'
        case Head(last=last):
            return f'{{"events":[],"eventId":{last}}}'


def _torn(event_id: int) -> str:
    return f'{{"TYPE":"Torn","eventId":{event_id}}}'


def _head(head: Head) -> dict[str, object]:
    return {"id": head.id._asdict(), "eventId": head.last}


def _json(value: object, status: int) -> Response:
    return Response(to_json(value).decode(), JSON, status)
