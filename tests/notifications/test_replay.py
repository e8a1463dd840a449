"""Replays deliver past events again, in parts, without disturbing other deliveries."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pytest

from chalicelib.services.notifications.replay import MAX_PART_S, ReplayProgress
from tests.notifications.fake_channels import Json
from tests.notifications.observer_client import ObserverClient, job
from tests.notifications.sites import Site


def replay_part(anna: ObserverClient, **body: object) -> Json:
    answer = anna.request("POST", "ops/replay", body)
    assert answer.status_code == 200, answer.text
    progress: Json = answer.json()
    return progress


@pytest.mark.parametrize("events", [1, 3])
def test_replay_delivers_events_after_position(anna: ObserverClient, events: int) -> None:
    ids = [event_id for number in range(4) for event_id in anna.publish(*(job("create", number),) * events)]
    anna.put("ops")
    progress = replay_part(anna, after=ids[events - 1])
    assert progress == {
        "replay": progress["replay"],
        "eventId": ids[-1],
        "until": ids[-1],
        "deliveries": 3 * events,
        "done": True,
    }
    assert anna.wait_until_settled("ops", 3 * events) == {"sent": 3 * events}
    marks = [str(mail["X-Annals-Delivery"]) for mail in anna.channels.mails(anna.address)]
    assert len(set(marks)) == 3 * events
    assert all(mark.endswith(f"/ops/replay-{progress['replay']}") for mark in marks)


def test_replay_dry_run_counts_and_sends_nothing(anna: ObserverClient) -> None:
    first, *_ = anna.publish(*(job("create", number) for number in range(3)))
    anna.put("ops")
    counted = replay_part(anna, after=first, dryRun=True)
    assert (counted["deliveries"], counted["done"]) == (2, True)
    assert anna.deliveries("ops")["waiting"] + anna.deliveries("ops")["sent"] == 0
    assert replay_part(anna, after=first)["deliveries"] == 2
    assert anna.wait_until_settled("ops", 2) == {"sent": 2}


def test_replay_starts_and_ends_within_commit(anna: ObserverClient) -> None:
    ids = anna.publish(*(job("create", number) for number in range(5)))
    anna.put("ops")
    progress = replay_part(anna, after=ids[1], until=ids[3])
    assert (progress["deliveries"], progress["eventId"], progress["until"], progress["done"]) == (
        2,
        ids[3],
        ids[3],
        True,
    )


def test_replay_since_time_starts_with_events_at_that_time(anna: ObserverClient) -> None:
    first, second = (anna.publish(job("create", number))[0] for number in (1, 2))
    anna.put("ops")
    assert replay_part(anna, since=_iso(second))["deliveries"] == 1
    assert replay_part(anna, since=_iso(first))["deliveries"] == 2
    assert replay_part(anna, since=_iso(second + 1))["deliveries"] == 0
    assert anna.wait_until_settled("ops", 3) == {"sent": 3}


def test_normal_deliveries_continue_during_replay(anna: ObserverClient) -> None:
    anna.put("ops")
    anna.publish(job("create", 1))
    anna.wait_until_settled("ops", 1)
    replay_part(anna, after=0, replay="again")
    anna.publish(job("create", 2))
    assert anna.wait_until_settled("ops", 3) == {"sent": 3}
    marks = [str(mail["X-Annals-Delivery"]) for mail in anna.channels.mails(anna.address)]
    assert sorted(mark.partition("/")[2] for mark in marks) == ["ops", "ops", "ops/replay-again"]


def test_repeated_replay_delivers_nothing_twice(anna: ObserverClient) -> None:
    anna.publish(job("create", 1), job("create", 2))
    anna.put("ops")
    first = replay_part(anna, after=0, replay="r-1")
    assert replay_part(anna, after=0, replay="r-1", until=first["until"]) == first
    assert anna.wait_until_settled("ops", 2) == {"sent": 2}
    replay_part(anna, after=0, replay="r-2")
    assert anna.wait_until_settled("ops", 4) == {"sent": 4}


def test_replay_delivers_only_matching_events(anna: ObserverClient) -> None:
    anna.publish(job("create", 1), job("create", 2, node="n2"), job("finish", 1), job("progress", 2))
    anna.put("ops", events="create,finish", nodes="n1")
    assert replay_part(anna, after=0)["deliveries"] == 2
    ben = anna.colleague("ben")
    ben.put("mine", "app", scope="private")
    assert ben.request("POST", "mine/replay", {"after": 0}).json()["deliveries"] == 0


NOTHING: dict[str, tuple[bool, Json]] = {
    "after the end": (True, {}),
    "after the end, until before it": (True, {"until": 5}),
    "long after the end": (False, {"after": 2**53 - 1}),
    "until the beginning": (False, {"after": 0, "until": 0}),
    "until before the first": (False, {"after": 0, "until": 7}),
}


@pytest.mark.parametrize("name", NOTHING)
def test_replay_without_events_is_done(anna: ObserverClient, name: str) -> None:
    from_end, body = NOTHING[name]
    *_, last = anna.publish(job("create", 1), job("create", 2))
    anna.put("ops")
    progress = replay_part(anna, **({"after": last} if from_end else {}), **body)
    assert (progress["deliveries"], progress["done"]) == (0, True)


@pytest.mark.parametrize("body", [{"after": 2**53 - 1}, {"since": "9999-12-31T23:59:59Z"}], ids=str)
def test_replay_beyond_end_reports_end_of_log(anna: ObserverClient, body: Json) -> None:
    *_, last = anna.publish(job("create", 1), job("create", 2))
    anna.put("ops")
    progress = replay_part(anna, **body)
    assert (progress["eventId"], progress["until"], progress["done"]) == (last, last, True)


def test_replay_of_empty_log_is_done(anna: ObserverClient) -> None:
    anna.put("ops")
    progress = replay_part(anna, after=0)
    assert (progress["deliveries"], progress["eventId"], progress["until"], progress["done"]) == (0, 0, 0, True)


@pytest.mark.parametrize(
    "body",
    [{}, {"after": 0, "since": "2024-01-01T00:00:00Z"}, {"after": -1}, {"after": "x"}, {"after": 0, "replay": "a/b"},
     {"after": 0, "replay": ""}, {"after": 0, "replay": "x" * 41}, {"since": "yesterday"}, {"after": 0, "from": 1}],
    ids=str,
)  # fmt: skip
def test_replay_with_invalid_body_returns_400(anna: ObserverClient, body: Json) -> None:
    anna.put("ops")
    assert anna.request("POST", "ops/replay", body).status_code == 400


def test_replay_in_parts_delivers_everything_once(site: Site) -> None:
    """Each part uses up its time with one commit."""
    events = [event for number in range(20) for event in site.publish(*(job("create", number),) * 3)]
    observer = site.put("ops")
    ticks: Iterator[int] = count()
    slow = replace(site.components.notifications.replayer, monotonic=lambda: next(ticks) * MAX_PART_S * 2)
    parts, until = (
        [slow.run(site.server, observer, 0, None, "r")],
        site.components.stores.log.head(site.server).last_event_id,
    )
    site.publish(job("create", 99))
    while not parts[-1].is_done:
        parts.append(slow.run(site.server, observer, parts[-1].event_id, until, "r"))
    expected = [ReplayProgress("r", events[place + 2].event_id, until, 3) for place in range(0, 60, 3)]
    assert parts == expected
    deliveries = [(waiting.delivery.id, waiting.delivery.replay) for waiting in site.waiting("ops")]
    assert deliveries == [(f"{event.id}/ops/replay-r", "r") for event in events]


def test_repeated_replay_part_puts_nothing_twice(site: Site) -> None:
    for number in range(5):
        site.publish(job("create", number))
    observer = site.put("ops", config={"to": "a@example.org,b@example.org"})
    once = site.components.notifications.replayer.run(site.server, observer, 0, None, "r")
    assert site.components.notifications.replayer.run(site.server, observer, 0, None, "r") == once
    assert len(site.waiting("ops")) == 10


def _iso(event_id: int) -> str:
    seconds, micros = divmod(event_id, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.{micros:06d}Z")
