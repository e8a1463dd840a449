"""Answers: JSON put together from text that was encoded when it was written."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from chalice.app import Response
from pydantic_core import from_json, to_json

from chalicelib.domain.commits import Appended
from chalicelib.domain.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.heads import Head
from chalicelib.domain.objects import State
from chalicelib.domain.organizations import Organization
from chalicelib.domain.pages import Page
from chalicelib.domain.pending import Pending

JSON: dict[str, str | list[str]] = {"Content-Type": "application/json", "Cache-Control": "no-store"}


NDJSON: dict[str, str | list[str]] = {"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"}


class Later(Response):
    """An answer that is known once something is written; the embedded server lets others join before it asks."""

    def __init__(self, settle: Callable[[], Response]) -> None:
        super().__init__("")
        self.settle = settle

    def to_dict(self, binary_types: list[str] | None = None) -> Any:
        """Not an answer yet: whoever called the app has to settle it."""
        del binary_types
        return self


class Stream(Response):
    """An answer that comes piece by piece; the embedded server sends each as soon as it is there."""

    def __init__(self, pieces: Iterator[str], headers: dict[str, str | list[str]]) -> None:
        super().__init__("", headers)
        self.pieces = pieces

    def to_dict(self, binary_types: list[str] | None = None) -> Any:
        """Not one answer: whoever called the app has to send the pieces."""
        del binary_types
        return self


def published(pending: Pending) -> Response:
    """What a publisher gets, at once or later."""
    return _published(pending.result()) if pending.done else Later(lambda: _published(pending.result()))


def _published(outcome: Appended | Head) -> Response:
    """201 with the numbered events; 200 if nothing was written now: no events, or an earlier request's."""
    match outcome:
        case Appended(replayed=True):
            return Response(_text(outcome), {**JSON, "Idempotent-Replayed": "true"}, 200)
        case Appended():
            return Response(_text(outcome), JSON, 201)
        case Head():
            return Response(_text(outcome), JSON, 200)


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
            text = f'{{"TYPE":"Torn","eventId":{event_id}}}'
        case Empty(last_event_id):
            text = f'{{"TYPE":"Empty","eventId":{last_event_id},"lastEventId":{last_event_id}}}'
    return Response(text, JSON, 200)


def event_lines(seqs: Iterator[EventSeq | None], streams: bool) -> Response:
    """A feed's answers as NDJSON, an event a line; an empty line is a heartbeat."""
    pieces = map(_lines, seqs)
    return Stream(pieces, NDJSON) if streams else Response("".join(pieces), NDJSON, 200)


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


def organization(organization: Organization, created: bool) -> Response:
    """An organization; 201 if it is new."""
    return _json({"organization": organization.name, "server": organization.server}, 201 if created else 200)


def health(heads: Iterable[Head], version: str) -> Response:
    """Alive, and where the logs stand."""
    return _json({"status": "ok", "version": version, "heads": [_head(head) for head in heads]}, 200)


def _text(outcome: Appended | Head) -> str:
    match outcome:
        case Appended(commit):
            return f'{{"events":[{",".join(commit.wires)}],"eventId":{commit.last}}}'
        case Head(last=last):
            return f'{{"events":[],"eventId":{last}}}'


def _lines(seq: EventSeq | None) -> str:
    match seq:
        case None:
            return "\n"
        case NonEmpty(_, wires):
            return "".join(f"{wire}\n" for wire in wires)
        case Empty():
            return ""
        case Torn(event_id):
            return f'{{"TYPE":"Torn","eventId":{event_id}}}\n'


def _head(head: Head) -> dict[str, object]:
    return {"id": head.id._asdict(), "eventId": head.last}


def _json(value: object, status: int) -> Response:
    return Response(to_json(value).decode(), JSON, status)
