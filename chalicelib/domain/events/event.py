"""Events as publishers send them, as the log stores them, and as readers receive them.

An event is encoded once. The log stores it as JSON text, `{"type":…,"key":…,"sourceTimestamp":…,"payload":…}`, with the
members in exactly this order. An event with tags has the member `"tags":[…]` at the end, other events do not have it.
Readers receive the same text with the event's id and timestamp inserted in front, and always with tags.
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
from chalicelib.domain.events.event_type import MAX_TYPE_OR_KEY_BYTES, EventType, ValidEventType, join_subtypes
from chalicelib.domain.events.ids import Id
from chalicelib.domain.lazy import lazy_property
from chalicelib.domain.model import Model
from chalicelib.domain.timestamps import Timestamp

_BASE64_PATTERN = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def _validate_base64(data: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("binary data must be base64 in the standard alphabet, padded with '='") from error
    return data


Key = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TYPE_OR_KEY_BYTES)]
"""The subject of the event, usually a path such as `/job/117`."""

MAX_TAGS = 16
MAX_TAG_CHARS = 200
"""A tag fits in a DynamoDB sort key with room for a prefix, even if each character has 4 bytes."""
NO_TAGS = ',"tags":[]}'
"""The end of an event without tags, as readers receive it."""


def _drop_repeated(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))


Tag = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TAG_CHARS)]
Tags = Annotated[tuple[Tag, ...], Field(fail_fast=True, max_length=MAX_TAGS), AfterValidator(_drop_repeated)]
"""Names of the things that an event concerns, such as `show:1`. Queries and conditions select events by them."""


class JsonPayload(Model):
    """Any JSON value. null is a value too, not a missing payload."""

    type: Literal["json"]
    data: Any


class BinaryPayload(Model):
    """Opaque bytes with a name, in base64."""

    type: Literal["binary"]
    name: str
    data: Annotated[
        str,
        AfterValidator(_validate_base64),
        Field(json_schema_extra={"contentEncoding": "base64", "pattern": _BASE64_PATTERN}),
    ]


Payload = Annotated[JsonPayload | BinaryPayload, Field(discriminator="type")]


class NewEvent(Model):
    """An event as its publisher sends it, before the log numbers it."""

    type: ValidEventType
    key: Key | None = None
    source_timestamp: Timestamp | None = Field(None, alias="sourceTimestamp")
    payload: Payload | None = None
    tags: Tags | None = None


def encode(event: NewEvent) -> bytes:
    """The JSON that the log stores, without raw newlines. Raises `ValueError` for values that JSON cannot represent."""
    return encode_all((event,))[0]


def encode_all(events: Iterable[NewEvent]) -> list[bytes]:
    """The JSON of each event. Optimized for speed: every appended event passes through here."""
    texts = []
    for event in events:
        source_us, payload = event.source_timestamp, event.payload
        members: dict[str, Any] = {
            "type": event.type,
            "key": event.key,
            "sourceTimestamp": None if source_us is None else timestamps.iso(source_us),
            "payload": None if payload is None else payload.__dict__,
        }
        if event.tags:
            members["tags"] = event.tags
        text = to_json(members)
        if len(text) > MAX_TYPE_OR_KEY_BYTES:
            _check_lengths(event)
        # 1e999 parses as infinity. A string may contain "Infinity" too, so the values have to be checked.
        if (b"Infinity" in text or b"NaN" in text) and isinstance(payload, JsonPayload):
            _check_finite(payload.data)
        texts.append(text)
    return texts


def _check_lengths(event: NewEvent) -> None:
    for name, text in (("type", join_subtypes(event.type)), ("key", event.key or "")):
        if len(text.encode()) > MAX_TYPE_OR_KEY_BYTES:
            raise ValueError(f"a {name} may have at most {MAX_TYPE_OR_KEY_BYTES} bytes")


def _check_finite(value: Any) -> None:
    match value:
        case float() if not isfinite(value):
            raise ValueError("JSON cannot represent NaN, nor numbers larger than 1.7976931348623157e308")
        case dict():
            for member in value.values():
                _check_finite(member)
        case list():
            for element in value:
                _check_finite(element)


class EventFields(NamedTuple):
    """The decoded text of an event."""

    type: EventType
    key: str | None
    source_timestamp: int | None
    payload: Any
    tags: tuple[str, ...] = ()


def decode(text: str) -> EventFields:
    """The inverse of `encode`."""
    members = from_json(text)
    source_time = members["sourceTimestamp"]
    return EventFields(
        tuple(members["type"]),
        members["key"],
        None if source_time is None else timestamps.parse(source_time),
        members["payload"],
        tuple(members.get("tags", ())),
    )


def has_tags(text: str) -> bool:
    """Whether the stored text of an event has tags. The payload, which is last otherwise, is an object or null."""
    return text.endswith("]}")


@dataclass(frozen=True)
class Event:
    """An event in the log. Events are equal if their ids are."""

    id: Id
    event_id: int
    at_us: int
    """Time of the event's commit, which is the EventId of the first event in it."""
    text: str
    position: int | None = None
    """Counts the events of the log without gaps, from 1. None: written by version 0.1.0 on DynamoDB."""

    @lazy_property
    def fields(self) -> EventFields:
        """Raises `LogBroken` if the text cannot be decoded."""
        try:
            return decode(self.text)
        except (ValueError, LookupError, TypeError) as error:
            raise LogBroken(f"event {self.id} cannot be read") from error

    @property
    def wire_text(self) -> str:
        """The event's JSON for readers."""
        server, session, instance = self.id
        position = "null" if self.position is None else self.position
        return (
            f'{{"id":{{"server":{server},"session":{session},"instance":{instance}}},"eventId":{self.event_id},'
            f'"position":{position},"timestamp":"{timestamps.iso(self.at_us)}",{self.text[1:-1]}'
            f"{'}' if has_tags(self.text) else NO_TAGS}"
        )

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __lt__(self, other: "Event") -> bool:
        """By id within a server. Across servers by timestamp, then by id to make the order deterministic."""
        if self.id.server == other.id.server:
            return self.id < other.id
        return (self.at_us, self.id) < (other.at_us, other.id)

    def __gt__(self, other: "Event") -> bool:
        return other < self
