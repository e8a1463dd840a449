"""The templates for alarms and for notifications that failed, with incomplete, hostile and large events."""

import json
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.adapters.templates.renderer import TemplateRenderer
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import MESSAGE_PARTS, Channel
from chalicelib.services.notifications.messages.alarm_scope import (
    ALARM_KINDS,
    alarm_place,
    alarm_scope,
    template_of,
)
from chalicelib.services.notifications.messages.times import MessageTimes
from infra.tools.samples import ALARM_EVENTS, JOB_TYPE, alarm_event, alarm_sample, failed_event
from tests.adapters.channels.test_templates import NASTY, Page

TEMPLATES = TemplateRenderer()
ALL_PARTS: list[tuple[Channel, str]] = [(channel, part) for channel, parts in MESSAGE_PARTS.items() for part in parts]
BODIES: list[tuple[Channel, str]] = [("mail", "text"), ("mail", "html"), ("slack", "json"), ("app", "body")]
BERLIN = MessageTimes(ZoneInfo("Europe/Berlin"), "%Y-%m-%d %H:%M:%S %Z")
RUN = "backup on n2 (#7001)"
SUBJECTS = {
    "missed": "MISSED backup on n2: expected 02:00 UTC, not started by 02:30",
    "late": f"LATE {RUN}: started 31 min 30 s late, expected 02:00 UTC",
    "overdue": f"OVERDUE {RUN}: running for 2 h 10 min",
    "silent": f"OVERDUE {RUN}: silent for 31 min",
    "early": f"EARLY {RUN}: started 3 min after the previous run",
    "recovered": f"RECOVERED {RUN}: missed, late since 02:30 UTC",
    "notificationFailed": "NOT DELIVERED by ops to night@example.org: 550 5.1.1 no such user",
}


def render(channel: Channel, part: str, event: Event, times: MessageTimes = BERLIN, **more: Any) -> str:
    variables = {**alarm_scope(event, times), "event": {}, "link": "https://a/1", **more}
    return TEMPLATES.render(channel, template_of(event) or "", part, variables)


def attachment(event: Event, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render("slack", "json", event, **more))["attachments"][0]
    return found


@pytest.mark.parametrize("title", ALARM_EVENTS)
def test_subject_says_what_happened(title: str) -> None:
    name, fields = alarm_sample(ALARM_EVENTS[title])
    variables = {**fields, "event": {}, "link": ""}
    assert {TEMPLATES.render(channel, name, "subject", variables) for channel in ("mail", "app")} == {SUBJECTS[title]}
    post = json.loads(TEMPLATES.render("slack", name, "json", variables))["attachments"][0]
    assert (post["title"], post["fallback"]) == (SUBJECTS[title], SUBJECTS[title])


def test_subject_has_times_of_observers_zone() -> None:
    """With the date, where it is not that of the event there."""
    event = alarm_event(
        "missed", {"slot": "2026-11-17T22:50:00Z", "due": "2026-11-17T23:20:00Z"}, "2026-11-17T23:21:00Z"
    )
    assert render("mail", "subject", event) == (
        "MISSED backup on n2: expected 2026-11-17 23:50 CET, not started by 00:20"
    )


@pytest.mark.parametrize(("channel", "part"), BODIES)
@pytest.mark.parametrize("title", ALARM_EVENTS)
def test_body_has_all_facts(title: str, channel: Channel, part: str) -> None:
    event = ALARM_EVENTS[title]
    text = render(channel, part, event, job_type=JOB_TYPE)
    visible = Page(text).text if part == "html" else text
    facts = alarm_scope(event, BERLIN)["facts"]
    assert len(facts) > 3
    assert [name for name, value in facts if name not in visible or str(value) not in visible] == []
    expected = ["could not connect to orders-db: timeout", "3 min 5 s, 90 % at most 4 min", "Previous run"]
    if title == "notificationFailed":
        expected = ["550 5.1.1 no such user", "ops", "night@example.org"]
    assert [value for value in expected if value not in visible] == []
    assert "https://a/1" in text


@pytest.mark.parametrize(
    ("title", "colour"), [("missed", "#b91c1c"), ("late", "#b45309"), ("recovered", "#15803d"), ("overdue", "#b91c1c")]
)
def test_color_shows_urgency(title: str, colour: str) -> None:
    assert attachment(ALARM_EVENTS[title])["color"] == colour
    assert colour in render("mail", "html", ALARM_EVENTS[title])


@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
@pytest.mark.parametrize("kind", [*ALARM_KINDS, "failed"])
def test_event_without_members_is_rendered(kind: str, channel: Channel, part: str) -> None:
    event = alarm_event(kind, {"expectation": None, "type": "", "node": ""}) if kind != "failed" else failed_event()
    text = render(channel, part, event, link="")
    assert text.strip()
    assert "None" not in text
    assert 'href=""' not in text


MEMBERS = (
    "type",
    "node",
    "expectation",
    "key",
    "job",
    "slot",
    "due",
    "lateS",
    "startedAt",
    "reason",
    "alarms",
    "error",
)


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("kind", [*ALARM_KINDS, "failed"])
def test_hostile_texts_are_escaped(kind: str, text: str) -> None:
    hostile = dict.fromkeys((*MEMBERS, "observer", "address", "channel"), text) | {"alarms": [text]}
    event = failed_event(**hostile) if kind == "failed" else alarm_event(kind, hostile)
    job_type = {**JOB_TYPE, "previous": text}
    page = Page(render("mail", "html", event, job_type=job_type))
    usual = {"html", "head", "meta", "title", "body", "div", "table", "tr", "td", "span", "h1", "p", "a", "b", "br"}
    assert (page.tags <= usual, page.open, page.links) == (True, [], ["https://a/1"])
    post = attachment(event, job_type=job_type)
    assert not {"<", ">"} & set(json.dumps({name: value for name, value in post.items() if name != "title_link"}))
    subject = render("mail", "subject", event)
    assert all(character.isprintable() or character == "\u200d" for character in subject)


ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.just([{}]))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([*ALARM_KINDS, "failed"]), st.dictionaries(st.sampled_from(MEMBERS), ANYTHING))
def test_any_members_are_rendered(kind: str, members: dict[str, Any]) -> None:
    members = json.loads(json.dumps(members).encode())
    text = json.dumps(members, ensure_ascii=False).encode(errors="ignore").decode()
    members = json.loads(text)
    event = failed_event(**members) if kind == "failed" else alarm_event(kind, {**members, "node": "n", "type": "t"})
    assert all(render(channel, part, event).strip() for channel, part in ALL_PARTS)


@pytest.mark.parametrize("text", ["<" * 60_000, "a\n" * 30_000, "🚀" * 15_000])
def test_long_texts_are_cut(text: str) -> None:
    long = dict.fromkeys(MEMBERS, text) | {"alarms": [text] * 1_000}
    for kind, (channel, part) in product([*ALARM_KINDS, "failed"], ALL_PARTS):
        event = failed_event(**long, observer=text, address=text) if kind == "failed" else alarm_event(kind, long)
        message = render(channel, part, event, job_type={**JOB_TYPE, "previous": text})
        assert 0 < len(message) < 64 * 1024
        assert part != "subject" or len(message) <= 400


@pytest.mark.parametrize(
    ("event", "place"),
    [
        (ALARM_EVENTS["overdue"], "objects/job/7001"),
        (ALARM_EVENTS["missed"], "objects/job?search=backup"),
        (alarm_event("missed", {"type": "a b&c/d"}), "objects/job?search=a%20b%26c%2Fd"),
        (ALARM_EVENTS["notificationFailed"], "observers/ops"),
    ],
)
def test_link_leads_to_job_type_or_observer(event: Event, place: str) -> None:
    assert alarm_place(event) == place
