"""Messages about several events on channels without templates of their own."""

import json
from typing import Any

import pytest

from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import AppriseMessage, BusEvent, Delivery, Message, WebhookPost
from chalicelib.domain.notifications.observer import Configuration
from tests.notifications.observer_client import job
from tests.notifications.sites import Site

URL = "https://hooks.example.org/annals"


def build_digest(site: Site, channel: str, config: dict[str, Any], events: list[Event]) -> Message:
    registry = site.components.notifications.observers
    observer, _ = registry.put(site.server, "ops", Configuration(channel=channel, config=config))
    first, last = events[0], events[-1]
    delivery = Delivery(
        f"{first.id}/ops/digest",
        site.server,
        "ops",
        first.id,
        "",
        observer.addresses[0],
        until=last.event_id,
        count=len(events),
        samples=tuple(event.id for event in events[:5]),
    )
    message = site.messages.build(delivery, first, observer, registry.load(site.server))
    assert isinstance(message, WebhookPost | BusEvent | AppriseMessage)
    return message


def finish_runs(site: Site, *successes: str) -> list[Event]:
    site.publish(job("create", 7))
    commits = [site.publish(job("finish", 7, success=success, message="done")) for success in successes]
    return [event for commit in commits for event in commit]


@pytest.mark.parametrize(("last", "action"), [("0", "trigger"), ("1", "resolve")])
def test_webhook_digest_has_count_and_alert_of_last(site: Site, last: str, action: str) -> None:
    events = finish_runs(site, "0", "0", last)
    post = build_digest(site, "webhook", {"url": URL, "secret": "whsec_" + "A" * 32}, events)
    assert isinstance(post, WebhookPost)
    data = json.loads(post.json)["data"]
    assert data["digest"] == {
        "count": 3,
        "until": events[-1].event_id,
        "samples": [str(event.id) for event in events],
    }
    assert (data["action"], data["event"]["success"]) == (action, "0")


def test_bus_digest_has_count(site: Site) -> None:
    event = build_digest(site, "eventbridge", {"bus": "default"}, finish_runs(site, "0", "0"))
    assert isinstance(event, BusEvent)
    assert json.loads(event.json)["digest"]["count"] == 2


def test_apprise_digest_is_rendered_as_failure(site: Site) -> None:
    message = build_digest(site, "apprise", {"urls": ["json://hooks.example.org"]}, finish_runs(site, "0", "0"))
    assert isinstance(message, AppriseMessage)
    assert message.is_failure
    assert message.body.startswith("2 events\n")
