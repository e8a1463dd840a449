"""Responses with the history of deliveries."""

from typing import Any

from chalice.app import Response

from chalicelib.domain import timestamps
from chalicelib.domain.notifications.delivery_record import DeliveryEntry, DeliveryPage
from chalicelib.http.responses import json_response


def delivery_page(page: DeliveryPage) -> Response:
    return json_response({"deliveries": [_entry_value(entry) for entry in page.entries], "cursor": page.cursor})


def _entry_value(entry: DeliveryEntry) -> dict[str, Any]:
    record, event = entry.record, entry.event
    return {
        "id": record.id,
        "observer": record.observer,
        "channel": entry.channel,
        "event": record.event._asdict(),
        "eventId": None if event is None else event.event_id,
        "type": None if event is None else event.fields.type,
        "key": None if event is None else event.fields.key,
        "address": record.address,
        "replay": record.replay or None,
        "state": record.status,
        "tries": record.tries,
        "error": record.error or None,
        "at": None if record.at_ms is None else timestamps.iso(record.at_ms * 1000),
    }
