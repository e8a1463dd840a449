"""Events: as publishers send them, as the log keeps them, as readers get them.

An event is encoded once. What the log keeps of it is JSON text, `{"type":…,"key":…,"sourceTimestamp":…,"payload":…}`
in exactly this order; what readers get is the same text with the event's number written in front.
"""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import from_json, to_json

from chalicelib.domain import timestamps
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.event_type import LONGEST_BYTES, CheckedEventType, EventType, joined
from chalicelib.domain.events.ids import Id
from chalicelib.domain.lazy import once
from chalicelib.domain.model import Model
from chalicelib.domain.timestamps import Timestamp


def _base64_checked(data: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as failure:
        raise ValueError("binary data is base64 in the standard alphabet, padded with '='") from failure
    return data


Key = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_BYTES)]
"""What the event is about, usually a path such as `/job/117`."""


class JsonPayload(Model):
    """Any JSON value; null is a value, not the lack of a payload."""

    type: Literal["json"]
    data: Any


class BinaryPayload(Model):
    """Bytes with a name, in base64; nobody looks inside."""

    type: Literal["binary"]
    name: str
    data: Annotated[str, AfterValidator(_base64_checked)]


Payload = Annotated[JsonPayload | BinaryPayload, Field(discriminator="type")]


class NewEvent(Model):
    """An event as its publisher sends it, before the log numbers it."""

    type: CheckedEventType
    key: Key | None = None
    source_timestamp: Timestamp | None = Field(None, alias="sourceTimestamp")
    payload: Payload | None = None


def encode(event: NewEvent) -> bytes:
    """The JSON that the log keeps; no raw newline in it. Numbers that JSON cannot write are refused."""
    return encode_all((event,))[0]


def encode_all(events: Iterable[NewEvent]) -> list[bytes]:
    """The JSON of each event; written for speed, as every event comes through here."""
    found = []
    for event in events:
        source_us, payload = event.source_timestamp, event.payload
        encoded = to_json(
            {
                "type": event.type,
                "key": event.key,
                "sourceTimestamp": None if source_us is None else timestamps.iso(source_us),
                "payload": None if payload is None else payload.__dict__,
            }
        )
        if len(encoded) > LONGEST_BYTES:
            _refuse_long(event)
        # 1e999 parses as infinity. Text may say Infinity too, so this is only the reason to look closely.
        if (b"Infinity" in encoded or b"NaN" in encoded) and isinstance(payload, JsonPayload):
            _refuse_not_finite(payload.data)
        found.append(encoded)
    return found


def _refuse_long(event: NewEvent) -> None:
    for name, text in (("type", joined(event.type)), ("key", event.key or "")):
        if len(text.encode()) > LONGEST_BYTES:
            raise ValueError(f"a {name} may have at most {LONGEST_BYTES} bytes")


def _refuse_not_finite(value: Any) -> None:
    match value:
        case float() if not isfinite(value):
            raise ValueError("a number is none that JSON can write: at most 1.7976931348623157e308, and not NaN")
        case dict():
            for member in value.values():
                _refuse_not_finite(member)
        case list():
            for element in value:
                _refuse_not_finite(element)


class Stored(NamedTuple):
    """The parts of an event's text that queries look at."""

    type: EventType
    key: str | None
    source_timestamp: int | None
    payload: Any


def decode(text: str) -> Stored:
    """What `encode` wrote."""
    members = from_json(text)
    source = members["sourceTimestamp"]
    return Stored(
        tuple(members["type"]),
        members["key"],
        None if source is None else timestamps.parse(source),
        members["payload"],
    )


@dataclass(frozen=True)
class Event:
    """An event in the log. Two with the same id are the same event."""

    id: Id
    event_id: int
    at: int
    """The EventId of the first event of its commit: the time of all of them."""
    text: str

    @once
    def stored(self) -> Stored:
        """The event's own fields, parsed when first asked for."""
        try:
            return decode(self.text)
        except (ValueError, LookupError, TypeError) as failure:
            raise LogBroken(f"event {self.id} cannot be read") from failure

    @property
    def wire(self) -> str:
        """The event's JSON for readers."""
        server, session, instance = self.id
        return (
            f'{{"id":{{"server":{server},"session":{session},"instance":{instance}}},"eventId":{self.event_id},'
            f'"timestamp":"{timestamps.iso(self.at)}",{self.text[1:]}'
        )

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __lt__(self, other: "Event") -> bool:
        """Within a server by id; across servers by timestamp, then, so that all agree, by id."""
        if self.id.server == other.id.server:
            return self.id < other.id
        return (self.at, self.id) < (other.at, other.id)

    def __gt__(self, other: "Event") -> bool:
        return other < self
