"""Calm observers: one message instead of many, at a good time, and none about what is silenced."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notifications.calm_site import HOUR_S, CalmSite, one, open_calm_site


@pytest.fixture(name="calm")
def a_calm_site(tmp_path: Path) -> Iterator[CalmSite]:
    with open_calm_site(tmp_path / "site") as calm:
        yield calm


def test_change_reports_first_failure_and_recovery(calm: CalmSite) -> None:
    calm.put(when="change")
    calm.succeed()
    first, _, _ = calm.fail(), calm.fail(), calm.fail()
    calm.work()
    recovered, _ = calm.succeed(), calm.succeed()
    calm.work()
    assert calm.events() == [one(first), one(recovered)]
    assert [reported.id.rpartition("/")[2] for reported in calm.reported()] == ["ops", "ops"]


def test_change_keeps_groups_apart(calm: CalmSite) -> None:
    calm.put(when="change")
    calm.put("by node", when="change", group_by=["type", "node"])
    events = [calm.fail(), calm.fail("deploy"), calm.fail(node="n2")]
    calm.work()
    assert calm.events() == [one(event) for event in events[:2]]
    assert calm.events("by node") == [one(event) for event in events]


def test_failures_reports_the_third_in_a_row(calm: CalmSite) -> None:
    calm.put(when="failures(3)")
    for success in (False, False, True, False, False):
        calm.run_job(success)
    third = calm.fail()
    calm.fail()
    recovered = calm.succeed()
    calm.work()
    assert calm.events() == [one(third), one(recovered)]


def test_recovered_reports_only_recoveries(calm: CalmSite) -> None:
    calm.put(when="recovered", filter='event.success == "1"')
    calm.succeed()
    calm.fail()
    recovered = calm.succeed()
    calm.succeed()
    calm.work()
    assert calm.events() == [one(recovered)]


def test_filter_and_silent_jobs_do_not_count(calm: CalmSite) -> None:
    calm.put(digest="10m", filter='event.node != "test"')
    first = calm.fail()
    calm.fail(node="test")
    calm.fail(props={"silent": "1"})
    last = calm.fail(props={"nomail": "0"})
    calm.fail(props={"nomail": "1"})
    calm.wait(HOUR_S)
    assert [(reported.number, reported.first, reported.until) for reported in calm.reported()] == [
        (2, first.event_id, last.event_id)
    ]


def test_failing_filter_delivers_so_that_it_is_seen(calm: CalmSite) -> None:
    calm.put(digest="10m", filter="event.id / 0 == 1")
    first = calm.fail()
    calm.wait(HOUR_S)
    assert calm.events() == [one(first)]


def test_digest_reports_a_thousand_failures_in_one_mail(calm: CalmSite) -> None:
    calm.put(digest="10m")
    events = [calm.fail() for _ in range(1000)]
    calm.work()
    assert calm.reported() == []
    calm.wait(600)
    assert calm.reported() == []
    calm.wait(6)
    base = f"{events[0].id}/ops/digest"
    assert calm.reported() == [(base, events[0].event_id, events[-1].event_id, 1000, 5)]
    (mail,) = calm.mails()
    assert (mail.delivery, mail.subject) == (base, "FAILED backup on n1 (#1): disk full (and 999 more)")
    assert [f"(#{number})" in mail.text for number in range(1, 7)] == [True] * 5 + [False]
    assert "… and 995 more" in mail.text
    assert "1000" in mail.text


def test_digest_of_one_event_is_the_usual_message(calm: CalmSite) -> None:
    calm.put(digest="10m")
    calm.fail()
    calm.wait(HOUR_S)
    (mail,) = calm.mails()
    assert (mail.subject, mail.delivery[-7:]) == ("FAILED backup on n1 (#1): disk full", "/digest")


def test_digest_has_one_delivery_per_address(calm: CalmSite) -> None:
    calm.put(digest="10m", config={"to": "a@example.org, b@example.org"})
    first, _ = calm.fail(), calm.fail()
    calm.wait(HOUR_S)
    base = f"{first.id}/ops/digest"
    assert [reported.id for reported in calm.reported()] == [base, f"{base}/2"]
    assert [mail.recipient for mail in calm.mails()] == ["a@example.org", "b@example.org"]


def test_later_event_of_the_group_releases_held_messages(calm: CalmSite) -> None:
    """Without the due index: the consumer alone decides the same."""
    calm.put(digest="10m")
    first = calm.fail()
    calm.site.observe()
    calm.world.now_ms += 3_600_000
    second = calm.fail()
    calm.site.observe()
    assert calm.events() == [one(first)]
    calm.wait(HOUR_S)
    assert calm.events() == [one(first), one(second)]


def test_throttle_sends_the_first_at_once_and_then_the_rest(calm: CalmSite) -> None:
    calm.put(throttle="1h")
    first = calm.fail()
    calm.work()
    assert calm.events() == [one(first)]
    second, third = calm.fail(), calm.fail()
    calm.wait(HOUR_S + 10)
    assert calm.events()[1:] == [(second.event_id, third.event_id)]
    fourth = calm.fail()
    calm.wait(60)
    assert len(calm.events()) == 2
    calm.wait(HOUR_S)
    assert calm.events()[2:] == [one(fourth)]


def test_quiet_hours_hold_messages_until_they_end(calm: CalmSite) -> None:
    """The clock of the test says 14 November 2023, 22:13 UTC."""
    calm.put(quiet="23:00-07:00", time_zone="Europe/Berlin")
    held, last = calm.fail(), calm.fail()
    calm.wait(7.5 * HOUR_S)
    assert calm.reported() == []
    calm.wait(HOUR_S)
    assert calm.events() == [(held.event_id, last.event_id)]
    morning = calm.fail()
    calm.work()
    assert calm.events()[1:] == [one(morning)]


def test_snooze_holds_messages_of_any_observer(calm: CalmSite) -> None:
    calm.put()
    before = calm.fail()
    calm.world.now_ms += 1000
    calm.snooze(HOUR_S)
    first, last = calm.fail(), calm.fail()
    calm.work()
    assert calm.events() == [one(before)]
    calm.wait(HOUR_S + 10)
    after = calm.fail()
    calm.work()
    assert calm.events() == [one(before), (first.event_id, last.event_id), one(after)]


def test_snooze_that_is_ended_early_releases_messages(calm: CalmSite) -> None:
    calm.put(when="change")
    calm.world.now_ms += 1000
    calm.snooze(24 * HOUR_S)
    held = calm.fail()
    calm.wait(60)
    calm.snooze(0)
    calm.site.components.notifications.calm.reschedule(calm.server, "ops", calm.world.now_ms * 1000)
    calm.wait(10)
    assert calm.events() == [one(held)]


def test_removed_calm_fields_release_messages(calm: CalmSite) -> None:
    calm.put(digest="24h")
    held = calm.fail()
    calm.work()
    calm.put()
    calm.site.components.notifications.calm.reschedule(calm.server, "ops", calm.world.now_ms * 1000)
    calm.wait(10)
    assert calm.events() == [one(held)]


def test_silence_mutes_plain_and_calm_observers(calm: CalmSite) -> None:
    calm.put()
    calm.put("changes", when="change")
    calm.silence("backup")
    calm.fail()
    other = calm.fail("deploy")
    calm.work()
    calm.wait(HOUR_S)
    after = calm.fail()
    calm.work()
    assert calm.events() == calm.events("changes") == [one(other), one(after)]


def test_acknowledged_failures_send_nothing_until_recovery(calm: CalmSite) -> None:
    calm.put()
    first = calm.fail()
    calm.acknowledge("backup")
    calm.fail()
    calm.work()
    calm.fail()
    recovered, again = calm.succeed(), calm.fail()
    calm.work()
    assert calm.events() == [one(first), one(recovered), one(again)]


def test_deleted_observer_sends_no_held_messages(calm: CalmSite) -> None:
    calm.put(digest="10m")
    calm.fail()
    calm.work()
    calm.site.components.notifications.observers.delete(calm.server, "ops")
    calm.put(digest="10m")
    calm.wait(HOUR_S)
    assert calm.reported() == []


def test_plain_observer_stores_no_state(calm: CalmSite) -> None:
    """The filter of a plain observer is evaluated when its messages are sent."""
    calm.put(filter="false")
    event = calm.fail()
    calm.work()
    assert calm.events() == [one(event)]
    progress = calm.site.components.stores.progress
    assert list(progress.range(f"{calm.server}/calm", "", "\U0010ffff")) == []
    assert progress.get(f"{calm.server}/mutes", ["all"]) == {}
