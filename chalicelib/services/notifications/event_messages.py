"""Messages for programs, which receive the event itself instead of rendered text."""

from typing import Any

from pydantic_core import to_json

from chalicelib.domain.errors import Undeliverable
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.cloud_event import cloud_event, event_data
from chalicelib.domain.notifications.delivery import BusEvent, Delivery, WebhookPost
from chalicelib.domain.notifications.observer import Observer

MAX_DETAIL_TYPE_CHARS = 128
"""The limit of EventBridge."""


def build_event_message(
    delivery: Delivery,
    event: Event,
    fields: dict[str, Any],
    observer: Observer,
    organization: str,
    link: str,
    public_url: str,
    last: Event,
) -> WebhookPost | BusEvent:
    """The message of an observer with the channel `webhook` or `eventbridge`. `fields` is the event in native JSON.

    `last` is the last event that the message reports. It decides whether the alert is raised or resolved.
    """
    config = observer.configuration.config
    data = event_data(fields, organization, observer.name, link, last)
    if delivery.count > 1:
        samples = [str(event_id) for event_id in delivery.samples]
        data["digest"] = {"count": delivery.count, "until": delivery.until, "samples": samples}
    if observer.configuration.channel == "eventbridge":
        if not config.get("bus"):
            raise Undeliverable("No event bus")
        detail = {"id": delivery.id, **data}
        text = to_json(detail).decode()
        return BusEvent(delivery.id, str(config["bus"]), _detail_type(event), event.at_us, text)
    if not config.get("url"):
        raise Undeliverable("No destination URL")
    body = cloud_event(delivery.id, event, data, organization, public_url)
    return WebhookPost(delivery.id, str(config["url"]), str(config.get("secret") or ""), to_json(body).decode())


def _detail_type(event: Event) -> str:
    return "/".join(event.fields.type)[:MAX_DETAIL_TYPE_CHARS] or "event"
