"""Values as JSON, and JSON as values."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from annals_client.values import (
    Binary,
    Condition,
    Event,
    Id,
    Ignored,
    Json,
    NewEvent,
    Payload,
    Published,
    Replayed,
    Snapshot,
)


def time_text(time: datetime) -> str:
    """ISO-8601 in UTC with six digits. A time without a zone is refused: nobody knows when it is."""
    if time.tzinfo is None:
        raise ValueError(f"{time.isoformat()} needs a time zone, such as datetime.now(UTC) has")
    return time.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def several(values: Sequence[str]) -> list[str]:
    """The values, also of who gave one instead of a list of one: a text is not its letters."""
    return [values] if isinstance(values, str) else list(values)


def subtypes(type_: str | Sequence[str]) -> list[str]:
    """A type that may be written with slashes; the empty text is the empty type."""
    if isinstance(type_, str):
        return type_.split("/") if type_ else []
    return list(type_)


def new_event_json(event: NewEvent | Mapping[str, Any]) -> Mapping[str, Any]:
    """An event to publish; a mapping goes as it is, as those of vocabularies do."""
    if not isinstance(event, NewEvent):
        return event
    written: dict[str, Any] = {"type": subtypes(event.type)}
    if event.key is not None:
        written["key"] = event.key
    if event.source_timestamp is not None:
        written["sourceTimestamp"] = time_text(event.source_timestamp)
    if event.payload is not None:
        written["payload"] = payload_json(event.payload)
    return written


def condition_json(condition: Condition) -> Mapping[str, Any]:
    """A condition; what it leaves open is absent, for an empty list would select nothing."""
    wanted = {"types": condition.types, "keys": condition.keys}
    selected = {name: several(values) for name, values in wanted.items() if values is not None}
    return {"failIfEventsMatch": selected, "after": condition.after}


def payload_json(payload: Payload) -> Mapping[str, Any]:
    """A payload."""
    if isinstance(payload, Json):
        return {"type": "json", "data": payload.data}
    return {"type": "binary", "name": payload.name, "data": base64.b64encode(payload.data).decode()}


def event_json(event: Event) -> Mapping[str, Any]:
    """An event just as the server writes it."""
    source = event.source_timestamp
    return {
        "id": {"server": event.id.server, "session": event.id.session, "instance": event.id.instance},
        "eventId": event.event_id,
        "timestamp": time_text(event.timestamp),
        "type": list(event.type),
        "key": event.key,
        "sourceTimestamp": None if source is None else time_text(source),
        "payload": None if event.payload is None else payload_json(event.payload),
    }


def event_of(written: Mapping[str, Any]) -> Event:
    """An event that the server wrote."""
    source = written["sourceTimestamp"]
    return Event(
        id=Id(**written["id"]),
        event_id=written["eventId"],
        timestamp=datetime.fromisoformat(written["timestamp"]),
        type=tuple(written["type"]),
        key=written["key"],
        source_timestamp=None if source is None else datetime.fromisoformat(source),
        payload=_payload_of(written["payload"]),
    )


def published_of(written: Mapping[str, Any], is_repeated: bool) -> Published:
    """What was published."""
    return Published(
        events=tuple(event_of(event) for event in written["events"]),
        event_id=written["eventId"],
        ignored=tuple(Ignored(**ignored) for ignored in written.get("ignored", ())),
        is_repeated=is_repeated,
    )


def snapshot_of(written: Mapping[str, Any]) -> Snapshot:
    """A list of objects, whole or in brief; or one object, which has the stamp itself."""
    if not isinstance(written.get("elements"), list):
        return Snapshot(written["eventId"], (written,))
    return Snapshot(
        event_id=written["eventId"],
        objects=tuple(written["elements"]),
        counts=written.get("counts", {}),
        more_follows=written.get("moreFollows", False),
    )


def replayed_of(written: Mapping[str, Any], before: int) -> Replayed:
    """A part of a replay, with the deliveries of the parts before it."""
    deliveries = before + written["deliveries"]
    return Replayed(written["replay"], written["eventId"], written["until"], deliveries, written["done"])


def _payload_of(written: Mapping[str, Any] | None) -> Payload | None:
    match written:
        case None:
            return None
        case {"type": "json", "data": data}:
            return Json(data)
        case _:
            return Binary(written["name"], base64.b64decode(written["data"]))
