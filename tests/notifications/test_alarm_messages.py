"""Messages about alarms and failed notifications, and what messages say about the type of a job."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib.adapters.templates.renderer import TemplateRenderer
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.notifications.delivery import AppMessage, Delivery, Dropped, Mail, Message, SlackPost
from chalicelib.services.notifications.message_builder import MessageBuilder, MessageDefaults
from chalicelib.services.notifications.messages.job_type_facts import JobTypeStatistics
from tests.notifications.observer_client import job
from tests.notifications.sites import ORGANIZATION, Site

CONSOLE = "https://annals.example"
MISSED = {
    "expectation": "nightly",
    "type": "backup",
    "node": "n2",
    "slot": "2026-11-18T02:00:00Z",
    "due": "2026-11-18T02:30:00Z",
}
RUNS = [
    {"id": 9, "run": 1, "outcome": "success", "endedAt": "2999-01-01T00:00:00.000000Z", "error": "a later run"},
    {"id": 8, "run": 1, "outcome": "failure", "endedAt": "2020-01-02T03:04:05.000000Z", "error": "no space left"},
    {"id": 7, "run": 1, "outcome": "timeout", "endedAt": "2020-01-01T03:04:05.000000Z"},
    {"id": 6, "run": 1, "outcome": "success", "endedAt": "2019-12-31T03:04:05.000000Z"},
]
STATISTICS = JobTypeStatistics(RUNS, 185.2, 240.4)


def append(site: Site, event_type: tuple[str, ...], data: dict[str, Any]) -> Event:
    payload = JsonPayload(type="json", data=data)
    site.components.log.publisher.publish(site.server, [NewEvent(type=event_type, payload=payload)])
    return list(site.commits())[-1][0]


def build(
    site: Site, name: str, event: Event, statistics: JobTypeStatistics | None = None, **defaults: str
) -> Message | Dropped:
    builder = MessageBuilder(
        TemplateRenderer(),
        site.components.log.reader,
        site.components.log.organizations.name,
        replace(MessageDefaults(mail_from="annals@example.org", public_url=CONSOLE), **defaults),
        lambda _server, job_type: statistics if job_type == "backup" else None,
    )
    configured = site.components.notifications.observers.load(site.server)
    observer = configured.observers[name]
    delivery = Delivery(f"{event.id}/{name}", site.server, name, event.id, "", observer.addresses[0])
    return builder.build(delivery, event, observer, configured)


def test_alarm_is_mailed_with_zone_link_and_history(site: Site) -> None:
    site.put("ops", types=["job/missed/*"], config={"time_zone": "Europe/Berlin", "time_format": "%d.%m. %H:%M"})
    event = append(site, ("job", "missed", "n2", "backup"), MISSED)
    mail = build(site, "ops", event, STATISTICS)
    assert isinstance(mail, Mail)
    # The clock of the site is that of another day.
    assert mail.subject == ("MISSED backup on n2: expected 2026-11-18 03:00 CET, not started by 2026-11-18 03:30")
    link = f"{CONSOLE}/#/objects/job?search=backup&org={ORGANIZATION}"
    lines = ["Expected         18.11. 03:00", "Previous run     failed 02.01. 04:04: no space left", link]
    assert [line for line in lines if line not in mail.text.splitlines()] == []
    assert link.replace("&", "&amp;") in mail.html


@pytest.mark.parametrize(("channel", "config"), [("app", {}), ("slack", {"time_zone": "Nowhere/At_all"})])
def test_alarm_is_rendered_for_channels_without_zone(channel: str, config: dict[str, str], site: Site) -> None:
    site.put("ops", channel, config=config)
    event = append(site, ("job", "missed", "n2", "backup"), MISSED)
    message = build(site, "ops", event)
    text = message.json if isinstance(message, SlackPost) else getattr(message, "subject", "")
    assert "MISSED backup on n2: expected 2026-11-18 02:00 UTC, not started by 2026-11-18 02:30" in text


def test_link_of_alarm_about_run_leads_to_the_job(site: Site) -> None:
    site.put("ops", "app")
    message = build(site, "ops", append(site, ("job", "overdue", "n2", "backup"), {**MISSED, "job": 7001}))
    assert isinstance(message, AppMessage)
    assert message.body.splitlines()[-1] == f"{CONSOLE}/#/objects/job/7001?org={ORGANIZATION}"
    assert build(site, "ops", append(site, ("job", "late", "", ""), {}), public_url="") != message


@pytest.mark.parametrize("data", [None, 7, "text", [1], {"type": ["x"]}])
def test_event_that_only_looks_like_an_alarm_is_rendered(data: Any, site: Site) -> None:
    site.put("ops")
    for event_type in (("job", "missed", "n2", "backup"), ("notification", "failed", "mail", "x"), ("job", "missed")):
        assert isinstance(build(site, "ops", append(site, event_type, data), STATISTICS), Mail)


def test_filter_sees_payload_of_alarm(site: Site) -> None:
    site.put("ops", filter="event.payload.data.type == 'restore'")
    event = append(site, ("job", "missed", "n2", "backup"), MISSED)
    assert build(site, "ops", event) == Dropped("filtered")


def test_finish_message_has_previous_run_and_usual_duration(site: Site) -> None:
    site.put("ops")
    site.put("chat", "slack")
    site.put("inbox", "app")
    site.publish(job("create", 1))
    (event,) = site.publish(job("finish", 1, success="0", message="no space left on /backup"))
    expected = ["failed 2020-01-02 03:04:05 UTC: no space left", "3 min 5 s, 90 % at most 4 min"]
    mail, post, message = (build(site, name, event, STATISTICS) for name in ("ops", "chat", "inbox"))
    assert isinstance(mail, Mail)
    assert isinstance(post, SlackPost)
    assert isinstance(message, AppMessage)
    assert mail.subject == message.subject == "FAILED backup on n1 (#1): no space left on /backup"
    for text in (mail.text, mail.html, post.json, message.body):
        assert [line for line in expected if line not in text] == []
        assert "a later run" not in text


@pytest.mark.parametrize("statistics", [None, JobTypeStatistics([], None, None), JobTypeStatistics([{}], None, None)])
def test_finish_message_without_history_is_complete(statistics: JobTypeStatistics | None, site: Site) -> None:
    site.put("ops")
    site.publish(job("create", 1))
    (event,) = site.publish(job("finish", 1))
    mail = build(site, "ops", event, statistics)
    assert isinstance(mail, Mail)
    assert "Usual duration" not in mail.text


def test_finish_message_reads_previous_run_from_log(site: Site) -> None:
    site.put("ops")
    for number, message in ((1, "no space left\nsecond line"), (2, "disk on fire")):
        site.publish(job("create", number))
        (event,) = site.publish(job("finish", number, success="0", message=message))
    mail = site.build_message("ops", event)
    assert isinstance(mail, Mail)
    assert mail.subject == "FAILED backup on n1 (#2): disk on fire"
    (previous,) = [line for line in mail.text.splitlines() if line.startswith("Previous run")]
    assert previous.endswith(": no space left")
    assert "Usual duration" in mail.text
