"""Conversion between values and JSON."""

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
    Item,
    Json,
    NewEvent,
    Payload,
    Published,
    Replayed,
    Snapshot,
)


def format_time(time: datetime) -> str:
    """Format as ISO 8601 in UTC with microseconds. Raises `ValueError` for a time without a time zone."""
    if time.tzinfo is None:
        raise ValueError(f"{time.isoformat()} needs a time zone, for example datetime.now(UTC)")
    return time.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def as_list(values: Sequence[str]) -> list[str]:
    """Wrap a single string in a list, so that it is not taken as a sequence of characters."""
    return [values] if isinstance(values, str) else list(values)


def split_type(type_: str | Sequence[str]) -> list[str]:
    """Split a type at the slashes. The empty string is the empty type."""
    if isinstance(type_, str):
        return type_.split("/") if type_ else []
    return list(type_)


def new_event_json(event: NewEvent | Mapping[str, Any]) -> Mapping[str, Any]:
    """An event to publish. Mappings, such as events of a vocabulary, are sent unchanged."""
    if not isinstance(event, NewEvent):
        return event
    document: dict[str, Any] = {"type": split_type(event.type)}
    if event.key is not None:
        document["key"] = event.key
    if event.source_timestamp is not None:
        document["sourceTimestamp"] = format_time(event.source_timestamp)
    if event.payload is not None:
        document["payload"] = payload_json(event.payload)
    if event.tags:
        document["tags"] = as_list(event.tags)
    return document


def condition_json(condition: Condition) -> Mapping[str, Any]:
    selected = filter_lists(Item(condition.types, condition.keys, condition.tags))
    if condition.items is not None:
        if selected:
            raise ValueError("give either items, or types, keys and tags")
        return {"failIfEventsMatch": {"items": items_json(condition.items)}, "after": condition.after}
    return {"failIfEventsMatch": selected, "after": condition.after}


def items_json(items: Sequence[Item]) -> list[dict[str, list[str]]]:
    return [filter_lists(item) for item in items]


def filter_lists(item: Item) -> dict[str, list[str]]:
    """The lists that are given, by name. Raises `ValueError` for an empty list."""
    lists = {"types": item.types, "keys": item.keys, "tags": item.tags}
    given = {name: as_list(values) for name, values in lists.items() if values is not None}
    empty = [name for name, values in given.items() if not values]
    if empty:
        raise ValueError(f"{empty[0]} is empty and would select nothing. Leave it out to select everything")
    return given


def payload_json(payload: Payload) -> Mapping[str, Any]:
    if isinstance(payload, Json):
        return {"type": "json", "data": payload.data}
    return {"type": "binary", "name": payload.name, "data": base64.b64encode(payload.data).decode()}


def event_json(event: Event) -> Mapping[str, Any]:
    """The event in the format of the API."""
    source = event.source_timestamp
    return {
        "id": {"server": event.id.server, "session": event.id.session, "instance": event.id.instance},
        "eventId": event.event_id,
        "position": event.position,
        "timestamp": format_time(event.timestamp),
        "type": list(event.type),
        "key": event.key,
        "sourceTimestamp": None if source is None else format_time(source),
        "payload": None if event.payload is None else payload_json(event.payload),
        "tags": list(event.tags),
    }


def parse_event(document: Mapping[str, Any]) -> Event:
    source = document["sourceTimestamp"]
    return Event(
        id=Id(**document["id"]),
        event_id=document["eventId"],
        timestamp=datetime.fromisoformat(document["timestamp"]),
        type=tuple(document["type"]),
        key=document["key"],
        source_timestamp=None if source is None else datetime.fromisoformat(source),
        payload=_parse_payload(document["payload"]),
        position=document.get("position"),
        tags=tuple(document.get("tags", ())),
    )


def parse_published(document: Mapping[str, Any], is_repeated: bool) -> Published:
    return Published(
        events=tuple(parse_event(event) for event in document["events"]),
        event_id=document["eventId"],
        ignored=tuple(Ignored(**ignored) for ignored in document.get("ignored", ())),
        is_repeated=is_repeated,
        position=document.get("position"),
        ids=tuple(document.get("ids", ())),
    )


def parse_snapshot(document: Mapping[str, Any]) -> Snapshot:
    """Parse a list of objects, or a single object, which carries `eventId` itself."""
    if not isinstance(document.get("elements"), list):
        return Snapshot(document["eventId"], (document,))
    return Snapshot(
        event_id=document["eventId"],
        objects=tuple(document["elements"]),
        counts=document.get("counts") or {},
        more_follows=document.get("moreFollows", False),
    )


def parse_replayed(document: Mapping[str, Any], before: int) -> Replayed:
    """Parse one part of a replay. `before` is the number of deliveries of the earlier parts."""
    deliveries = before + document["deliveries"]
    return Replayed(document["replay"], document["eventId"], document["until"], deliveries, document["done"])


def _parse_payload(document: Mapping[str, Any] | None) -> Payload | None:
    match document:
        case None:
            return None
        case {"type": "json", "data": data}:
            return Json(data)
        case _:
            return Binary(document["name"], base64.b64decode(document["data"]))
