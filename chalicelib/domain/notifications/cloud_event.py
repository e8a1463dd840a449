"""Events in the format of CloudEvents 1.0, for programs that receive notifications."""

import re
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.alert import alert_of

CONTENT_TYPE = "application/cloudevents+json"
TYPE_PREFIX = "annals"

_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that attributes of CloudEvents must not contain."""


def cloud_event(
    delivery_id: str, event: Event, data: dict[str, Any], organization: str, public_url: str
) -> dict[str, Any]:
    """The event as a member of a batch or as the body of a request in structured mode.

    The type joins the subtypes with dots. A subtype may contain dots itself, so `data.event` is the exact source.
    """
    attributes: dict[str, Any] = {
        "specversion": "1.0",
        "id": delivery_id,
        "source": f"{public_url.rstrip('/')}/organizations/{organization}",
        "type": _attribute(".".join((TYPE_PREFIX, *event.fields.type))),
        "time": timestamps.iso(event.at_us),
        "datacontenttype": "application/json",
    }
    if event.fields.key:
        attributes["subject"] = _attribute(event.fields.key)
    return {**attributes, "data": data}


def event_data(native: dict[str, Any], organization: str, observer: str, link: str, last: Event) -> dict[str, Any]:
    """The data of a CloudEvent: the event in its native JSON, and what receivers need to handle it.

    `last` is the last of several events, or the event itself. It decides about the alert.
    """
    data: dict[str, Any] = {"event": native, "organization": organization, "observer": observer}
    if link:
        data["link"] = link
    if alert := alert_of(last.fields):
        data |= {"dedupKey": f"{organization}/{alert.subject}", "action": alert.action}
    return data


def _attribute(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
